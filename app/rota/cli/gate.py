"""`rota gate`: talks to the hub's API."""

from urllib.parse import quote

import click


@click.command("gate")
@click.argument("app")
@click.argument("state", type=click.Choice(["on", "off"]), required=False)
@click.option("--allow", multiple=True, metavar="NAME", help="Let only this account in; may be repeated.")
def command(*, app: str, state: str | None, allow: tuple[str, ...]) -> None:
    """Let only those who are signed in to the hub use APP; without a state, say how it is."""
    from rota.cli.client import call, tell

    path = f"/api/apps/{quote(app, safe='')}/gate"
    if allow and state != "on":
        raise click.UsageError("--allow goes with: rota gate APP on")
    gate = call("PUT", path, {"shut": state == "on", "allow": list(allow)}) if state else call("GET", path)
    if not gate["shut"]:
        tell(f"{app} is open to everybody.")
        return
    who = ", ".join(gate["allow"]) or "everyone who is signed in"
    tell(f"{app} lets in {who}.")
