"""Consistent copies of the database, made while the hub works."""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
from pathlib import Path

from rota.errors import BackupError
from rota.settings import Settings

SQLITE_NAME = "rota.db"
POSTGRES_NAME = "rota.pgdump"
LONGEST = 3600.0  # seconds that a dump may take


async def dump(settings: Settings, directory: Path) -> Path:
    """Write one consistent copy of the hub's database into a directory; return its file.

    Raises BackupError.
    """
    if settings.sqlite:
        target = directory / SQLITE_NAME
        await asyncio.to_thread(_copy_sqlite, settings.sqlite_path, target)
        return target
    from rota.backups.pg_dump import dump_command, dump_environment

    target = directory / POSTGRES_NAME
    await _run(dump_command(settings, target), dump_environment(settings))
    return target


async def check_dump(path: Path) -> None:
    """Make sure that a dump can be read to its end. Raises BackupError."""
    if path.name == SQLITE_NAME:
        await asyncio.to_thread(_check_sqlite, path)
    else:
        await _run(["pg_restore", "--list", str(path)], dict(os.environ))


def _copy_sqlite(source: Path, target: Path) -> None:
    try:
        with (
            contextlib.closing(
                sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)
            ) as database,
            contextlib.closing(sqlite3.connect(target)) as copy,
        ):
            database.backup(copy)
    except sqlite3.Error as error:
        raise BackupError(f"{source} cannot be copied: {error}") from error


def _check_sqlite(path: Path) -> None:
    try:
        with contextlib.closing(sqlite3.connect(path)) as database:
            verdict = database.execute("PRAGMA integrity_check").fetchone()[0]
    except sqlite3.Error as error:
        raise BackupError(f"the database in the backup cannot be read: {error}") from error
    if verdict != "ok":
        raise BackupError(f"the database in the backup is damaged: {verdict}")


async def _run(argv: list[str], environment: dict[str, str]) -> None:
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError:
        raise BackupError(f"{argv[0]} is not installed: install the package postgresql-client") from None
    try:
        async with asyncio.timeout(LONGEST):
            _, said = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        lines = said.decode(errors="replace").strip().splitlines() or ["no message"]
        raise BackupError(f"{argv[0]} failed: {lines[-1]}")
