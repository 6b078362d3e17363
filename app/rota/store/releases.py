"""Releases: what each app ran, runs, and may go back to."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import msgspec

from rota.store.database import Database, Row, Transaction
from rota.store.moments import NOT_YET, moment
from rota.wire.statements import ReleaseStatement


class _Entry(msgspec.Struct):
    """What is looked at of an entry of the log that `rota.releases.statement` wrote."""

    details: ReleaseStatement


@dataclass(frozen=True, kw_only=True)
class Release:
    """One release.

    `text` is its entry in the log, byte for byte, and `act` the row of the
    outbox that leads there. `served` says whether it ever took over.
    """

    app: str
    number: int
    artifact: str
    configuration: int
    text: str
    act: int
    build: int | None
    cause: str
    actor: str
    served: bool = False
    created_at: datetime = NOT_YET

    @cached_property
    def statement(self) -> ReleaseStatement:
        """What the release is."""
        return msgspec.json.decode(self.text, type=_Entry).details


class Releases:
    """Static methods belong to the transaction of their caller."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def find(self, app: str, number: int) -> Release | None:
        """Return one, None where it is not there."""
        return await self._database.read(lambda tx: self.within(tx, app, number))

    async def of(self, app: str, limit: int = 1000) -> list[Release]:
        """Return the releases of an app, the newest first."""
        rows = await self._database.read(lambda tx: tx.all("releases.of", app=app, limit=limit))
        return [_release(row) for row in rows]

    @staticmethod
    async def within(tx: Transaction, app: str, number: int) -> Release | None:
        """Return one as this transaction sees it."""
        row = await tx.one("releases.find", app=app, number=number)
        return None if row is None else _release(row)

    @staticmethod
    async def next(tx: Transaction, app: str) -> int:
        """Return the number of the next release of an app that the caller holds."""
        row = await tx.one("releases.next", app=app)
        assert row is not None  # noqa: S101 - an aggregate gives one row
        return int(row["number"])

    @staticmethod
    async def previous(tx: Transaction, app: str, before: int) -> Release | None:
        """Return the newest release that served before this one, other than in what it runs."""
        row = await tx.one("releases.previous", app=app, before=before)
        return None if row is None else _release(row)

    @staticmethod
    async def add(tx: Transaction, new: Release) -> None:
        """Add one; its times and whether it served are the database's."""
        await tx.run(
            "releases.add",
            app=new.app,
            number=new.number,
            artifact=new.artifact,
            configuration=new.configuration,
            text=new.text,
            act=new.act,
            build=new.build,
            cause=new.cause,
            actor=new.actor,
        )

    @staticmethod
    async def mark_served(tx: Transaction, app: str, number: int) -> bool:
        """Note that one has taken over: from now on it is one to go back to."""
        return await tx.run("releases.mark_served", app=app, number=number) == 1

    @staticmethod
    async def remove(tx: Transaction, app: str, number: int) -> bool:
        """Forget one. Its entry in the log stays."""
        return await tx.run("releases.remove", app=app, number=number) == 1


def _release(row: Row) -> Release:
    return Release(
        app=row["app"],
        number=row["number"],
        artifact=row["artifact"],
        configuration=row["configuration"],
        text=row["statement"],
        act=row["act"],
        build=row["build"],
        cause=row["cause"],
        actor=row["actor"],
        served=bool(row["served"]),
        created_at=moment(row["created_at"]),
    )
