"""`rota migrate`."""

import asyncio
from pathlib import Path

import click

from rota.cli.options import settings_from, shared


@click.command("migrate")
@shared
def command(data: str | None, file: Path | None) -> None:
    """Bring the database's schema up to date, as the first process to start would."""
    from rota import wiring

    settings = settings_from(file, data).settings

    async def migrate() -> str:
        wiring.prepare_directories(settings)
        database = wiring.make_database(settings)
        try:
            await database.open()
            pulse = await database.pulse()
        finally:
            await database.close()
        return f"{pulse.server}: schema {pulse.schema}"

    click.echo(asyncio.run(migrate()))
