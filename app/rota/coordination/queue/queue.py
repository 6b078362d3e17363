"""The seam: jobs go in within the caller's transaction, and out to one worker at a time.

Both implementations are one table. On PostgreSQL workers pass over each
other's rows; on SQLite they take turns under the write lock. What differs is
SQL, so that the class is one.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import msgspec

from rota.coordination.bus.announcer import Announcer
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import JobWaiting
from rota.coordination.queue.job import Claimed, NewJob, PutBack, encode
from rota.coordination.queue.kinds import LEASE, Kinds
from rota.store.database import Database, Transaction
from rota.store.migrations import program_schema

TOPIC = "queue"  # of the events that pages listen to
TOLD = 1.0  # seconds between two of them from one process
NUDGE = 0.02  # seconds between two nudges of one kind from one process


@dataclass
class Settled:
    """What a worker has to say of jobs that it holds. `again` when it may have said so before."""

    done: list[Claimed] = field(default_factory=list)
    back: list[PutBack] = field(default_factory=list)
    again: bool = False

    def __bool__(self) -> bool:
        """Tell whether there is anything to say."""
        return bool(self.done or self.back)


@dataclass(frozen=True)
class Turn:
    """What a turn gave: the jobs claimed, oldest first, and how many of those settled were no longer held."""

    claimed: list[Claimed]
    lost: int


class Queue(Protocol):
    """Every time is the database's. A job is held under (worker, attempts), and nobody else changes it."""

    async def enqueue(self, transaction: Transaction, *jobs: NewJob) -> list[int]:
        """Add jobs in the caller's transaction, and nudge the workers after its commit.

        Return the ids of those added: one whose key is taken is not. Raises PayloadError.
        """

    async def turn(self, worker: str, settled: Settled, kinds: Kinds, room: int) -> Turn:
        """Settle jobs and claim at most `room` others, in one transaction."""

    async def renew(self, worker: str, held: Iterable[tuple[Claimed, float]]) -> set[int]:
        """Lease jobs for so many seconds more; return the ids of those still held."""

    async def finish(self, transaction: Transaction, worker: str, job: Claimed) -> bool:
        """Finish one job in the caller's transaction; return False where it is no longer held."""


class TableQueue:
    """The `Queue` seam, on the table `work_queue` of either database."""

    def __init__(self, database: Database, bus: Bus) -> None:
        """Keep jobs in this database, and nudge workers over this bus."""
        self._database = database
        self._bus = bus
        self._schema = program_schema()
        self._announcer = Announcer(bus, TOLD)
        self._nudged: dict[str, float] = {}  # kind → when it was last nudged for, or will be

    async def enqueue(self, transaction: Transaction, *jobs: NewJob) -> list[int]:
        """Add jobs; an insert of many is one nudge for each kind."""
        new = _json([_row(job) for job in jobs])
        rows = await transaction.all("queue.enqueue", schema=self._schema, jobs=new)
        if rows:
            kinds = {job.kind for job in jobs if job.delay <= 0}
            transaction.after_commit(partial(self._nudge, kinds))
            transaction.after_commit(self._tell)
        return [row["id"] for row in rows]

    async def turn(self, worker: str, settled: Settled, kinds: Kinds, room: int) -> Turn:
        """Settle and claim in one commit."""

        async def work(transaction: Transaction) -> Turn:
            kept = 0
            if settled.done:
                kept += await _finish(transaction, worker, settled.done)
            if settled.back:
                back = [
                    msgspec.structs.asdict(job) | {"uncounted": int(not job.counted)} for job in settled.back
                ]
                kept += await transaction.run("queue.put_back", worker=worker, back=_json(back))
            lost = len(settled.done) + len(settled.back) - kept
            if not room:
                return Turn([], lost)
            await transaction.one("queue.prepare", durable=bool(settled))
            return Turn(await self._claim(transaction, worker, kinds, room), lost)

        turn = await self._database.write(work)
        if settled or turn.claimed:
            self._tell()
        return turn

    async def renew(self, worker: str, held: Iterable[tuple[Claimed, float]]) -> set[int]:
        """Renew in one statement."""
        rows = _json([{"id": job.id, "attempts": job.attempts, "lease": lease} for job, lease in held])
        kept = await self._database.write(lambda tx: tx.all("queue.renew", worker=worker, held=rows))
        return {row["id"] for row in kept}

    async def finish(self, transaction: Transaction, worker: str, job: Claimed) -> bool:
        """Finish one job."""
        transaction.after_commit(self._tell)
        return await _finish(transaction, worker, [job]) == 1

    async def _claim(self, transaction: Transaction, worker: str, kinds: Kinds, room: int) -> list[Claimed]:
        rows = await transaction.all(
            "queue.claim",
            worker=worker,
            schema=self._schema,
            barred=_json(sorted(kinds.barred)),
            leases=kinds.leases,
            lease=LEASE,
            limit=room,
        )
        claimed = [Claimed(row["id"], row["kind"], row["payload"], row["attempts"]) for row in rows]
        return sorted(claimed, key=lambda job: job.id)

    def _tell(self) -> None:
        """Tell pages that the queue is not what it was."""
        self._announcer.say(TOPIC, "changed")

    def _nudge(self, kinds: Iterable[str]) -> None:
        """Say that jobs wait: at once, and of what follows within a moment once more at its end."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for kind in kinds:
            since = now - self._nudged.get(kind, -NUDGE)
            if since >= NUDGE:
                self._nudged[kind] = now
                self._bus.publish(JobWaiting(kind))
            elif since >= 0:
                self._nudged[kind] = now + NUDGE - since
                loop.call_later(NUDGE - since, self._bus.publish, JobWaiting(kind))


async def _finish(transaction: Transaction, worker: str, done: list[Claimed]) -> int:
    """Remove jobs that this worker holds; return how many it held."""
    ids, attempts = _json([job.id for job in done]), _json([job.attempts for job in done])
    return await transaction.run("queue.finish", worker=worker, ids=ids, attempts=attempts)


def _json(rows: object) -> str:
    return msgspec.json.encode(rows).decode()


def _row(job: NewJob) -> dict[str, object]:
    return {
        "kind": job.kind,
        "payload": encode(job.payload),
        "dedupe_key": job.key,
        "keeps_key": job.keeps_key,
        "delay": job.delay,
    }
