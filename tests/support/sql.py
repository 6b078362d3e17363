"""What a test does to a hub's rows behind its back, on either database."""

import contextlib
import sqlite3
from typing import Any

import psycopg

from rota.settings import Settings


def run(settings: Settings, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Run a statement, with ? for values, that both databases understand; return its rows, if any."""
    if settings.sqlite:
        with contextlib.closing(sqlite3.connect(settings.sqlite_path, timeout=5)) as lite, lite:
            return list(lite.execute(statement, values))
    database = settings.database
    with psycopg.connect(database.url, password=database.password.reveal(), autocommit=True) as connection:
        connection.execute("SELECT set_config('search_path', %s, false)", (database.schema,))
        cursor = connection.execute(statement.replace("?", "%s").encode(), values)
        return list(cursor.fetchall()) if cursor.description else []


def end_leases(settings: Settings) -> None:
    """Make every lease one that has run out."""
    run(settings, "UPDATE work_queue SET claimed_until = enqueued_at WHERE claimed_until IS NOT NULL")
