"""The work queue as people see it: what waits, runs and died, and what to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from rota.coordination.epoch import Fence
from rota.store.database import Database, Row, Transaction
from rota.store.moments import moment

MOST_DEAD = 10_000  # dead jobs of one kind that are kept
PRUNED = 1000  # rows removed in one statement


class State(StrEnum):
    """Where a job stands."""

    DUE = "due"
    LATER = "later"
    RUNNING = "running"
    DEAD = "dead"


@dataclass(frozen=True)
class Count:
    """How many jobs of a kind are in a state, and since how many seconds the oldest is due, or dead."""

    kind: str
    state: State
    jobs: int
    oldest: float


@dataclass(frozen=True)
class JobRecord:
    """One job. `run_after` is when it is due, or died; `payload` is text as stored."""

    id: int
    kind: str
    state: State
    attempts: int
    enqueued_at: datetime
    run_after: datetime
    key: str | None
    worker: str | None
    program_schema: int
    error: str | None
    payload: str


class Jobs:
    """Reads every job; changes only those that no worker holds."""

    def __init__(self, database: Database) -> None:
        """Look into this database."""
        self._database = database

    async def counts(self) -> list[Count]:
        """Return how many there are, by kind and state."""
        rows = await self._database.read(lambda tx: tx.all("jobs.counts"))
        return [Count(row["kind"], State(row["state"]), row["jobs"], row["oldest"]) for row in rows]

    async def list(
        self, kind: str | None = None, state: State | None = None, limit: int = 100
    ) -> Sequence[JobRecord]:
        """Return jobs, the one that is due first at the top."""
        rows = await self._database.read(
            lambda tx: tx.all("jobs.list", kind=kind, state=state, id=None, limit=limit)
        )
        return [_record(row) for row in rows]

    async def find(self, job: int) -> JobRecord | None:
        """Return one job, None where it is finished or never was."""
        row = await self._database.read(
            lambda tx: tx.one("jobs.list", kind=None, state=None, id=job, limit=1)
        )
        return None if row is None else _record(row)

    async def retry(self, jobs: Sequence[int]) -> Sequence[int]:
        """Make jobs due now, dead ones with every attempt before them; return those that were changed."""
        return await self._each("jobs.retry", jobs)

    async def drop(self, jobs: Sequence[int]) -> Sequence[int]:
        """Remove jobs; return those that were removed."""
        return await self._each("jobs.drop", jobs)

    async def prune(self, fence: Fence, days: int) -> int:
        """Forget jobs that died longer ago, and the oldest of too many; return how many rows."""
        rows = 0
        while True:
            pruned = await self._database.write(
                lambda tx: tx.run("jobs.prune", days=days, most=MOST_DEAD, limit=PRUNED), fence
            )
            rows += pruned
            if pruned < PRUNED:
                return rows

    async def _each(self, statement: str, jobs: Sequence[int]) -> Sequence[int]:
        async def work(tx: Transaction) -> Sequence[int]:
            return [job for job in sorted(set(jobs)) if await tx.run(statement, id=job)]

        return await self._database.write(work)


def _record(row: Row) -> JobRecord:
    return JobRecord(
        id=row["id"],
        kind=row["kind"],
        state=State(row["state"]),
        attempts=row["attempts"],
        enqueued_at=moment(row["enqueued_at"]),
        run_after=moment(row["run_after"]),
        key=row["dedupe_key"],
        worker=row["claimed_by"],
        program_schema=row["program_schema"],
        error=row["last_error"],
        payload=row["payload"],
    )
