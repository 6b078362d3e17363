"""Numbered migrations: which there are, and which a database still needs. No I/O on databases here."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from blake3 import blake3

from rota.errors import SchemaError

_FILE = re.compile(r"(?P<number>\d{4})_(?P<name>[a-z0-9_]+)\.sql")
_TOLERATES = re.compile(r"^-- tolerates: (?P<number>\d+)$", re.MULTILINE)


@dataclass(frozen=True, order=True)
class Migration:
    """One step of the schema. `tolerates` is the oldest program schema number that can live with it."""

    number: int
    name: str
    tolerates: int
    sql: str
    digest: str


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """Return the package's migrations for "sqlite" or "postgresql", in order."""
    found = []
    for file in resources.files("rota.store").joinpath("migrations", dialect).iterdir():
        match = _FILE.fullmatch(file.name)
        if match is None:
            continue
        text = file.read_text(encoding="utf-8")
        tolerates = _TOLERATES.search(text)
        if tolerates is None:
            raise ValueError(f"migration {file.name} says not which program it tolerates")
        digest = blake3(text.encode()).hexdigest()
        found.append(Migration(int(match["number"]), match["name"], int(tolerates["number"]), text, digest))
    return tuple(sorted(found))


def program_schema(dialect: str = "postgresql") -> int:
    """Return this program's schema number: that of its newest migration."""
    return migrations(dialect)[-1].number


def pending(dialect: str, applied: Iterable[Mapping[str, object]]) -> list[Migration]:
    """Return the migrations that a database with these `schema_migrations` rows still needs.

    Raises SchemaError where the database is too new for this program, or was
    made by another history than this program's.
    """
    known = {migration.number: migration for migration in migrations(dialect)}
    mine = program_schema(dialect)
    numbers = set()
    for row in applied:
        number, digest = row["number"], row["digest"]
        numbers.add(number)
        refuse_if_too_new(int(str(row["tolerates"])), mine)
        if number in known and known[int(str(number))].digest != digest:
            raise SchemaError(
                f"the database's migration {number} ({row['name']}) is not this program's: a build of "
                "another history made it: run the program that made it, or restore a backup"
            )
    return [migration for migration in migrations(dialect) if migration.number not in numbers]


def refuse_if_too_new(tolerates: int, mine: int) -> None:
    """Raise SchemaError where the database tolerates only newer programs than this one."""
    if tolerates > mine:
        raise SchemaError(
            f"the database needs a program of schema {tolerates} or newer, and this one has {mine}: "
            "install the release that the other processes run"
        )
