"""`rota apps`: talks to the hub's API."""

import json

import click


@click.command("apps")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def command(*, as_json: bool) -> None:
    """List the apps: the release that serves, and how many of its instances are healthy."""
    from rota.cli.client import call, tell
    from rota.cli.tables import table

    apps = call("GET", "/api/apps")["apps"]
    if as_json:
        click.echo(json.dumps(apps, indent=2))
        return
    if not apps:
        click.echo("No app: `rota deploy NAME DIRECTORY` makes one.")
        return
    rows = [("APP", "RELEASE", "HEALTHY", "DEPLOY")]
    rows += [
        (
            app["name"],
            f"v{app['release']}" if app["release"] else "-",
            f"{app['healthy']} of {app['instances']}",
            str(app["deploy"] or "-"),
        )
        for app in apps
    ]
    for line in table(rows):
        tell(line)
