"""Builds: what was to be built, and what came of it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from rota.coordination.epoch import Fence
from rota.store.database import Database, Row, Transaction
from rota.store.moments import moment, moment_or_none


class BuildState(StrEnum):
    """Where a build stands. What is neither waiting nor running has ended for good."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self not in (BuildState.WAITING, BuildState.RUNNING)


@dataclass(frozen=True, kw_only=True)
class BuildRow:
    """One build. `manifest` is JSON, read by `rota.builds.manifest`; `artifact` is there once it is done."""

    id: int
    app: str
    source: str
    state: BuildState
    artifact: str | None
    manifest: str
    reason: str
    actor: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class Builds:
    """Static methods belong to the transaction of their caller."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def find(self, build: int) -> BuildRow | None:
        """Return one, None where it is not there."""
        return await self._database.read(lambda tx: self.within(tx, build))

    async def of(self, app: str, limit: int = 50) -> list[BuildRow]:
        """Return the newest builds of an app, the newest first."""
        rows = await self._database.read(lambda tx: tx.all("builds.of", app=app, limit=limit))
        return [_build(row) for row in rows]

    async def underway(self) -> list[BuildRow]:
        """Return those that have not ended, the oldest first."""
        rows = await self._database.read(lambda tx: tx.all("builds.underway"))
        return [_build(row) for row in rows]

    @staticmethod
    async def within(tx: Transaction, build: int) -> BuildRow | None:
        """Return one as this transaction sees it."""
        row = await tx.one("builds.find", id=build)
        return None if row is None else _build(row)

    @staticmethod
    async def add(tx: Transaction, app: str, source: str, actor: str) -> int:
        """Add one that waits; return its number."""
        row = await tx.one("builds.add", app=app, source=source, actor=actor)
        assert row is not None  # noqa: S101 - INSERT … RETURNING gives one row
        return int(row["id"])

    @staticmethod
    async def begin(tx: Transaction, build: int) -> bool:
        """Say that one runs, also one whose worker ended; return False where it has ended."""
        return await tx.run("builds.begin", id=build) == 1

    @staticmethod
    async def finish(tx: Transaction, build: int, artifact: str, manifest: str) -> bool:
        """Say what one made; return False where it does not run."""
        return await tx.run("builds.finish", id=build, artifact=artifact, manifest=manifest) == 1

    @staticmethod
    async def end(tx: Transaction, build: int, state: BuildState, reason: str) -> bool:
        """Say that nothing comes of one, and why; return False where it has ended."""
        return await tx.run("builds.end", id=build, state=state.value, reason=reason) == 1


class BuildOutput:
    """What builds said, in pieces numbered from 1."""

    def __init__(self, database: Database) -> None:
        """Keep it in this database."""
        self._database = database

    async def after(self, build: int, number: int, limit: int = 100) -> list[tuple[int, str]]:
        """Return (number, text) of the pieces after this one."""
        rows = await self._database.read(
            lambda tx: tx.all("builds.output", id=build, number=number + 1, limit=limit)
        )
        return [(row["number"], row["text"]) for row in rows]

    @staticmethod
    async def say(tx: Transaction, build: int, number: int, text: str) -> None:
        """Add a piece; one that is there already stays."""
        await tx.run("builds.say", id=build, number=number, text=text)

    @staticmethod
    async def silence(tx: Transaction, build: int) -> None:
        """Forget what a build said: it begins anew."""
        await tx.run("builds.silence", id=build)

    @staticmethod
    async def prune(database: Database, fence: Fence, days: int) -> int:
        """Forget output of builds that ended longer ago, and those that no release came of; count rows."""

        async def work(tx: Transaction) -> int:
            rows = await tx.run("builds.prune_output", days=days)
            return rows + await tx.run("builds.prune", days=days)

        return await database.write(work, fence)


def _build(row: Row) -> BuildRow:
    return BuildRow(
        id=row["id"],
        app=row["app"],
        source=row["source"],
        state=BuildState(row["state"]),
        artifact=row["artifact"],
        manifest=row["manifest"],
        reason=row["reason"],
        actor=row["actor"],
        created_at=moment(row["created_at"]),
        started_at=moment_or_none(row["started_at"]),
        ended_at=moment_or_none(row["ended_at"]),
    )
