"""Apps' configuration as it is kept: each version whole, each value sealed by itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from rota.store.database import Database, Row, Transaction
from rota.store.moments import NOT_YET, moment


@dataclass(frozen=True, kw_only=True)
class ConfigurationRow:
    """One version: `names` has the random id of each value, `sealed` the value as it was sealed.

    Number 0 is the empty one, which has no row.
    """

    app: str
    number: int
    names: Mapping[str, str]
    sealed: Mapping[str, str]
    actor: str
    created_at: datetime = NOT_YET


@dataclass(frozen=True, kw_only=True)
class Opening:
    """A wish to see a version's values, for the key `public`; then `sealed`, or the `reason` why not."""

    id: int
    app: str
    number: int
    public: str
    sealed: str | None
    reason: str


class Configurations:
    """Static methods belong to the transaction of their caller."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def newest(self, app: str) -> ConfigurationRow | None:
        """Return the newest version of an app, None where nothing was ever set."""
        return await self._database.read(lambda tx: self.newest_within(tx, app))

    async def find(self, app: str, number: int) -> ConfigurationRow | None:
        """Return one version, None where it is not there."""
        row = await self._database.read(lambda tx: tx.one("configurations.find", app=app, number=number))
        return None if row is None else _configuration(row)

    async def of(self, app: str) -> list[ConfigurationRow]:
        """Return every version of an app, the newest first."""
        rows = await self._database.read(lambda tx: tx.all("configurations.of", app=app))
        return [_configuration(row) for row in rows]

    @staticmethod
    async def newest_within(tx: Transaction, app: str) -> ConfigurationRow | None:
        """Return the newest version as this transaction sees it."""
        row = await tx.one("configurations.newest", app=app)
        return None if row is None else _configuration(row)

    @staticmethod
    async def add(tx: Transaction, new: ConfigurationRow) -> bool:
        """Add the version after the one before it; return False where somebody has added it meanwhile."""
        values = {"names": _json(new.names), "sealed": _json(new.sealed), "actor": new.actor}
        return await tx.run("configurations.add", app=new.app, number=new.number, **values) == 1

    @staticmethod
    async def remove(tx: Transaction, app: str, number: int) -> bool:
        """Forget one version."""
        return await tx.run("configurations.remove", app=app, number=number) == 1

    async def key(self) -> str | None:
        """Return the public key to which values are sealed, None before a worker has told one."""
        row = await self._database.read(lambda tx: tx.one("configurations.key"))
        return None if row is None else str(row["public"])

    @staticmethod
    async def tell_key(tx: Transaction, public: str) -> None:
        """Have values sealed to this key from now on."""
        await tx.run("configurations.tell_key", public=public)

    @staticmethod
    async def ask(tx: Transaction, app: str, number: int, public: str) -> int:
        """Ask for a version's values; return the number of the wish."""
        row = await tx.one("configurations.ask", app=app, number=number, public=public)
        assert row is not None  # noqa: S101 - INSERT … RETURNING gives one row
        return int(row["id"])

    async def opening(self, wish: int) -> Opening | None:
        """Return a wish as it stands."""
        row = await self._database.read(lambda tx: tx.one("configurations.opening", id=wish))
        return None if row is None else Opening(**row)

    @staticmethod
    async def answer(tx: Transaction, wish: int, sealed: str | None, reason: str) -> None:
        """Answer a wish."""
        await tx.run("configurations.answer", id=wish, sealed=sealed, reason=reason)

    @staticmethod
    async def forget(tx: Transaction, wish: int, older: float) -> None:
        """Remove a wish, and those of others that are `older` seconds old."""
        await tx.run("configurations.forget", id=wish, older=older)


def _json(names: Mapping[str, str]) -> str:
    return msgspec.json.encode(names, order="sorted").decode()


def _configuration(row: Row) -> ConfigurationRow:
    return ConfigurationRow(
        app=row["app"],
        number=row["number"],
        names=msgspec.json.decode(row["names"], type=dict[str, str]),
        sealed=msgspec.json.decode(row["sealed"], type=dict[str, str]),
        actor=row["actor"],
        created_at=moment(row["created_at"]),
    )
