"""`rota settings`."""

import json
from pathlib import Path

import click

from rota.cli.options import settings_from, shared
from rota.settings.describe import describe


@click.command("settings")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@shared
def command(as_json: bool, data: str | None, file: Path | None) -> None:  # noqa: FBT001
    """Print every setting in force and its source. Secrets are not shown."""
    loaded = settings_from(file, data)
    rows = describe(loaded.settings)
    if as_json:
        shown = {name: {"value": value, "source": loaded.sources[name]} for name, value in rows.items()}
        click.echo(json.dumps(shown, indent=2))
        return
    values = {name: json.dumps(value) for name, value in rows.items()}
    widths = max(map(len, values)), max(map(len, values.values()))
    for name, value in values.items():
        click.echo(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {loaded.sources[name]}")
