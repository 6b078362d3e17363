"""`rota releases`."""

import json
from urllib.parse import quote

import click


@click.command("releases")
@click.argument("app")
@click.option("--limit", default=20, type=click.IntRange(1, 500), help="At most so many.  [default: 20]")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def command(*, app: str, limit: int, as_json: bool) -> None:
    """List the releases of APP, the newest first; * marks the one that serves."""
    from rota.cli.client import call, tell

    found = call("GET", f"/api/apps/{quote(app, safe='')}/releases?limit={limit}")["releases"]
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif not found:
        click.echo(f"{app} has no release: `rota deploy {app}` makes one.")
    for each in () if as_json else found:
        mark = "*" if each["current"] else " "
        state = "served" if each["served"] else "never served"
        kept = "" if each["kept"] else "  no longer kept"
        made = each["created_at"][:19].replace("T", " ")
        tell(f"{mark} v{each['number']:<5} {made}  {each['cause']:<16} {state:<12} {each['actor']}{kept}")
