"""`rota context`: which of several hubs the commands talk to."""

import json

import click

from rota.cli import contexts
from rota.cli.client import tell
from rota.cli.tables import table


@click.group("context")
def command() -> None:
    """The hubs that `rota login` keeps, and the one that commands talk to.

    `rota --context NAME COMMAND` and ROTA_CONTEXT choose another one for once. ROTA_URL and
    ROTA_TOKEN win over the latter, never over --context. `rota --context NAME logout` forgets one.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def show_all(*, as_json: bool) -> None:
    """List the contexts; * marks the one in use. No token is shown."""
    known = contexts.read()
    if as_json:
        found = [
            {"name": name, "url": each.url, "current": name == known.current}
            for name, each in sorted(known.known.items())
        ]
        click.echo(json.dumps(found, indent=2))
        return
    if not known.known:
        click.echo("No context: `rota login URL` makes one.")
        return
    rows = [(" ", "NAME", "HUB")]
    rows += [
        ("*" if name == known.current else " ", name, each.url) for name, each in sorted(known.known.items())
    ]
    for line in table(rows):
        tell(line)


@command.command("use")
@click.argument("name")
def use(*, name: str) -> None:
    """Have commands talk to the hub NAME from now on."""
    made = contexts.change(lambda known: known.using(name))
    tell(f"Commands talk to {name}, at {made.known[name].url}.")
