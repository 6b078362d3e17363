"""`rota domain`: every command talks to the hub's API."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import click

API = "/api/domains"
as_json = click.option("--json", "as_json", is_flag=True, help="For programs.")
_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group("domain")
def command() -> None:
    """The names under which apps are reached, and their certificates."""


@command.command("add")
@click.argument("app")
@click.argument("name")
@click.option("--acme", is_flag=True, help="Have the certificate from the hub's authority, and renewed.")
@click.option("--certificate", type=_file, metavar="FILE", help="PEM: the name's certificate and its chain.")
@click.option("--key", type=_file, metavar="FILE", help="PEM: the certificate's private key.")
@as_json
def add(  # noqa: PLR0913 - one for each option
    *, app: str, name: str, acme: bool, certificate: Path | None, key: Path | None, as_json: bool
) -> None:
    """Give APP the name NAME; for a name that it has, another certificate."""
    body = {
        "app": app,
        "name": name,
        "acme": acme,
        "certificate": _text(certificate),
        "key": _text(key),
    }
    made = _call("POST", API, body)
    if as_json:
        click.echo(json.dumps(made, indent=2))
        return
    _say(f"{made['shown']} leads to {made['app']}.")
    if made["source"] == "none":
        _say("It has no certificate of its own: --acme has one made, --certificate and --key give one.")
    if made["source"] == "acme":
        _say("Its certificate is ordered within a minute: `rota domain list` shows how it goes.")


@command.command("remove")
@click.argument("name")
def remove(*, name: str) -> None:
    """Take NAME from its app, with its certificate."""
    removed = _call("DELETE", f"{API}/{quote(name, safe='')}")
    _say(f"{removed['shown']} leads to {removed['app']} no longer.")


@command.command("list")
@click.argument("app", default="")
@as_json
def show_all(*, app: str, as_json: bool) -> None:
    """List the names of APP, or of every app."""
    from rota.cli.tables import table

    found = _call("GET", f"{API}?{urlencode({'app': app})}")
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    if found["below"]:
        _say(f"Each app is reached at APP.{found['below']} by itself.")
    if not found["domains"]:
        _say("No other name: `rota domain add APP NAME` gives one.")
        return
    rows = [("NAME", "APP", "CERTIFICATE", "UNTIL", "SERVED", "")]
    rows += [
        (
            each["shown"],
            each["app"],
            each["source"],
            (each["ends_at"] or "-")[:10],
            "yes" if each["served_at"] else "no" if each["ends_at"] else "-",
            each["reason"],
        )
        for each in found["domains"]
    ]
    for line in table(rows):
        _say(line)


def _text(file: Path | None) -> str:
    try:
        return "" if file is None else file.read_text(encoding="ascii")
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{file} is not PEM: it holds something else than text") from error


def _call(method: str, path: str, body: object = None) -> Any:
    from rota.cli.client import call

    return call(method, path, body)


def _say(text: str) -> None:
    from rota.cli.client import tell

    tell(text)
