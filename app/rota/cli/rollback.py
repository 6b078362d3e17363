"""`rota rollback`."""

import json
from urllib.parse import quote

import click


@click.command("rollback")
@click.argument("app")
@click.argument("release", required=False, metavar="[RELEASE]")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def command(*, app: str, release: str | None, as_json: bool) -> None:
    """Have APP run what RELEASE ran, as 12 or v12; without it, the last release that served before.

    That makes a new release, with the artifact and the configuration of the old one, and deploys it.
    """
    from rota.cli.client import call, tell

    number = None
    if release is not None:
        digits = release.removeprefix("v")
        if not digits.isdecimal() or not digits.isascii() or not int(digits):
            raise click.UsageError(
                f"{release!r} is no release: write 12 or v12; `rota releases {app}` shows all."
            )
        number = int(digits)
    begun = call("POST", f"/api/apps/{quote(app, safe='')}/rollback", {"release": number})
    if as_json:
        click.echo(json.dumps(begun, indent=2))
        return
    tell(f"{app}  v{begun['release']}  {begun['cause']}  is being deployed: deploy {begun['deploy']}")
