"""Apps: which there are, and the release that each one is at."""

from dataclasses import dataclass
from datetime import datetime

from rota.store.database import Database, Row, Transaction
from rota.store.moments import moment


@dataclass(frozen=True, kw_only=True)
class AppRow:
    """One app. `release` is the number of the one that serves, None before the first."""

    name: str
    release: int | None
    version: int  # moves with `release`, which is changed only from the version that was read
    gated: bool
    created_at: datetime


class Apps:
    """Static methods belong to the transaction of their caller."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def all(self) -> list[AppRow]:
        """Return every app, by name."""
        rows = await self._database.read(lambda tx: tx.all("apps.all"))
        return [_app(row) for row in rows]

    async def find(self, name: str) -> AppRow | None:
        """Return one, None where it is not there."""
        return await self._database.read(lambda tx: self.within(tx, name))

    @staticmethod
    async def within(tx: Transaction, name: str) -> AppRow | None:
        """Return one as this transaction sees it."""
        row = await tx.one("apps.find", name=name)
        return None if row is None else _app(row)

    @staticmethod
    async def hold(tx: Transaction, name: str) -> AppRow | None:
        """Return one, and let nobody else hold or move it until this transaction ends."""
        row = await tx.one("apps.hold", name=name)
        return None if row is None else _app(row)

    @staticmethod
    async def add(tx: Transaction, name: str) -> bool:
        """Add one; return False where it is there already."""
        return await tx.run("apps.add", name=name) == 1

    @staticmethod
    async def move(tx: Transaction, name: str, release: int, version: int) -> bool:
        """Say which release serves; return False where somebody has moved the app since `version`."""
        return await tx.run("apps.move", name=name, release=release, version=version) == 1

    @staticmethod
    async def gate(tx: Transaction, name: str, *, gated: bool) -> bool:
        """Say whether visitors must be signed in; return False where the app is not there."""
        return await tx.run("apps.gate", name=name, gated=gated) == 1


def _app(row: Row) -> AppRow:
    return AppRow(
        name=row["name"],
        release=row["release"],
        version=row["version"],
        gated=bool(row["gated"]),
        created_at=moment(row["created_at"]),
    )
