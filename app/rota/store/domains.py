"""The names under which apps are reached."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from rota.store.database import Database, Row, Transaction
from rota.store.moments import moment


class Source(StrEnum):
    """Where a name's certificate comes from: nowhere, a file that somebody gave, an authority (ACME)."""

    NONE = "none"
    FILE = "file"
    ACME = "acme"


@dataclass(frozen=True, kw_only=True)
class Domain:
    """One name, which belongs to one app."""

    name: str
    app: str
    source: Source
    actor: str
    created_at: datetime


class Domains:
    """Static methods belong to the transaction of their caller."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def all(self, app: str = "") -> list[Domain]:
        """Return the names of an app, or of all, by app and name."""
        rows = await self._database.read(lambda tx: tx.all("domains.all", app=app))
        return [_domain(row) for row in rows]

    async def find(self, name: str) -> Domain | None:
        """Return one, None where it is not there."""
        row = await self._database.read(lambda tx: tx.one("domains.find", name=name))
        return None if row is None else _domain(row)

    @staticmethod
    async def add(tx: Transaction, name: str, app: str, source: Source, actor: str) -> bool:
        """Give a name to an app, or change its certificate's source; False where another app has it."""
        return await tx.run("domains.add", name=name, app=app, source=source.value, actor=actor) == 1

    @staticmethod
    async def remove(tx: Transaction, name: str, app: str) -> bool:
        """Take a name from an app; return False where it has none such."""
        return await tx.run("domains.remove", name=name, app=app) == 1


def _domain(row: Row) -> Domain:
    return Domain(**{**row, "source": Source(row["source"]), "created_at": moment(row["created_at"])})
