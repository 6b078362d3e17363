"""Deliveries: what each webhook is told, and what came of it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from rota.coordination.epoch import Fence
from rota.store.database import Database, Row, Transaction
from rota.store.moments import moment, moment_or_none


class State(StrEnum):
    """Who tries it: the leader of `hooks.worker`, its job, or nobody any more."""

    NEW = "new"
    QUEUED = "queued"
    DELIVERED = "delivered"


class Standing(StrEnum):
    """Where it stands for people. What is queued stands as its job does."""

    NEW = "new"
    QUEUED = "queued"
    DELIVERED = "delivered"
    DEAD = "dead"  # its job had all its attempts
    DROPPED = "dropped"  # somebody dropped its job


@dataclass(frozen=True, kw_only=True)
class Due:
    """What a try needs; `tries` are those before it. `secret` is sealed, and never shown."""

    id: int
    webhook: str
    act: str
    body: str
    state: State
    tries: int
    job: int | None
    url: str
    secret: str
    active: bool


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One delivery as people see it. `status` is that of the last answer, None where there was none."""

    id: int
    webhook: str
    entry: int
    act: str
    kind: str
    standing: Standing
    tries: int
    job: int | None
    status: int | None
    reason: str
    created_at: datetime
    tried_at: datetime | None
    next_at: datetime | None


class Deliveries:
    """Changes are compare-and-set on the state and the number of tries."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    @staticmethod
    async def add(tx: Transaction, webhook: str, entry: int, kind: str, message: tuple[str, str]) -> bool:
        """Add one with its act's id and body; return False where this webhook has it already."""
        act, body = message
        added = await tx.run("deliveries.add", webhook=webhook, entry=entry, act=act, kind=kind, body=body)
        return added == 1

    async def waiting(self, each: int, limit: int) -> list[Due]:
        """Return the oldest new ones of active webhooks, so many of each at most."""
        rows = await self._database.read(lambda tx: tx.all("deliveries.waiting", each=each, limit=limit))
        return [_due(row) for row in rows]

    async def due(self, delivery: int) -> Due | None:
        """Return what a try of one needs, None where it is gone."""
        row = await self._database.read(lambda tx: tx.one("deliveries.one", id=delivery))
        return None if row is None else _due(row)

    @staticmethod
    async def settle(tx: Transaction, due: Due, state: State, status: int | None, reason: str | None) -> bool:
        """Note what a try gave; return False where another one was noted before."""
        values = {"id": due.id, "before": due.state, "tries": due.tries}
        settled = await tx.run("deliveries.settle", state=state, status=status, reason=reason, **values)
        return settled == 1

    @staticmethod
    async def give(tx: Transaction, delivery: int, job: int) -> None:
        """Give one to a job, which alone tries it from now on."""
        await tx.run("deliveries.give", id=delivery, job=job)

    @staticmethod
    async def renew(tx: Transaction, due: Due) -> bool:
        """Make one new again; return False where it has changed since it was read."""
        return await tx.run("deliveries.renew", id=due.id, before=due.state, tries=due.tries) == 1

    async def list(self, webhook: str | None = None, limit: int = 50) -> list[Delivery]:
        """Return the newest, newest first."""
        rows = await self._database.read(
            lambda tx: tx.all("deliveries.list", webhook=webhook, id=None, act=None, limit=limit)
        )
        return [_delivery(row) for row in rows]

    async def find(
        self, webhook: str, delivery: int | None = None, act: str | None = None
    ) -> Delivery | None:
        """Return one of a webhook, by its number or its act; None where it is not there."""
        row = await self._database.read(
            lambda tx: tx.one("deliveries.list", webhook=webhook, id=delivery, act=act, limit=1)
        )
        return None if row is None else _delivery(row)

    async def counts(self) -> dict[str, int]:
        """Return how many stand how."""
        rows = await self._database.read(lambda tx: tx.all("deliveries.counts"))
        return {row["standing"]: row["deliveries"] for row in rows}

    async def prune(self, fence: Fence, days: int) -> int:
        """Forget older ones that nobody will try again; return how many rows."""
        return await self._database.write(lambda tx: tx.run("deliveries.prune", days=days), fence)


def _due(row: Row) -> Due:
    return Due(
        id=row["id"],
        webhook=row["webhook"],
        act=row["act"],
        body=row["body"],
        state=State(row["state"]),
        tries=row["tries"],
        job=row["job"],
        url=row["url"],
        secret=row["secret"],
        active=bool(row["active"]),
    )


def _delivery(row: Row) -> Delivery:
    return Delivery(
        id=row["id"],
        webhook=row["webhook"],
        entry=row["entry"],
        act=row["act"],
        kind=row["kind"],
        standing=Standing(row["standing"]),
        tries=row["tries"],
        job=row["job"],
        status=row["status"],
        reason=row["reason"],
        created_at=moment(row["created_at"]),
        tried_at=moment_or_none(row["tried_at"]),
        next_at=moment_or_none(row["next_at"]),
    )
