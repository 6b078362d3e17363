"""`rota migrate`."""

from pathlib import Path

import click

from rota.cli.options import settings_from, shared


@click.command("migrate")
@shared
def command(data: str | None, file: Path | None) -> None:
    """Bring the database's schema up to date, as the first process to start would."""
    from rota.cli.database import with_database

    settings = settings_from(file, data).settings
    pulse = with_database(settings, lambda database: database.pulse(), begin=True)
    click.echo(f"{pulse.server}: schema {pulse.schema}")
