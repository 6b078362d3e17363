"""`rota backup`."""

import asyncio
import json
from pathlib import Path

import click

from rota.cli.options import settings_from, shared


@click.group("backup")
def command() -> None:
    """Make, list and verify backups of this hub."""


@command.command("now")
@shared
def now(data: str | None, file: Path | None) -> None:
    """Make a backup now and print its path."""
    from rota.backups.maker import Maker
    from rota.cli.database import with_database

    settings = settings_from(file, data).settings
    made = with_database(settings, lambda database: Maker(settings, database).make())
    click.echo(f"{made.path}  {made.size} bytes  blake3 {made.digest}")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@shared
def show(as_json: bool, data: str | None, file: Path | None) -> None:  # noqa: FBT001
    """List the backups on record, newest first."""
    from rota.cli.database import with_database
    from rota.store.backups import Backups

    settings = settings_from(file, data).settings
    records = with_database(settings, lambda database: Backups(database).all())
    if as_json:
        fields = ("name", "cause", "state", "size", "digest", "error")
        click.echo(
            json.dumps([{name: getattr(record, name) for name in fields} for record in records], indent=2)
        )
        return
    if not records:
        click.echo("No backup yet: `rota backup now` makes one.")
    for record in records:
        missing = record.state == "complete" and not (settings.backup_directory / record.name).exists()
        state = "missing" if missing else record.state
        click.echo(f"{record.name}  {state:<8}  {record.size or '-':>12}  {record.error or ''}".rstrip())


@command.command("verify")
@click.argument("name", required=False)
@shared
def check(name: str | None, data: str | None, file: Path | None) -> None:
    """Read a backup to its end and check everything in it. Without NAME, every one."""
    from rota import wiring
    from rota.backups.maker import Maker, verify
    from rota.errors import BackupError

    settings = settings_from(file, data).settings
    maker = Maker(settings, wiring.make_database(settings))
    paths = [maker.find(name)] if name else maker.list_files()
    if not paths:
        raise BackupError(f"{settings.backup_directory} holds no backup: `rota backup now` makes one")
    broken: list[str] = []
    for path in paths:
        try:
            manifest = asyncio.run(verify(path))
        except BackupError as error:
            broken.append(str(error))
            continue
        files = len(manifest.members)
        click.echo(f"{path.name}  whole: {manifest.database}, schema {manifest.schema}, {files} files")
    if broken:
        raise BackupError("\n".join(broken))
