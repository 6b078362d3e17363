"""Runs: one-shot executions of an app's commands on a server."""

from dataclasses import dataclass
from datetime import datetime

from rota.store.database import Database, Row, Transaction
from rota.store.moments import moment, moment_or_none


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """One run. `exit_code` is there once it is known; a run that is lost has an outcome that nobody knows."""

    id: int
    app: str
    kind: str  # build, release, once
    release: int | None
    command: str
    server: str
    state: str  # waiting, running, done, failed, lost, cancelled
    exit_code: int | None
    reason: str
    deploy: int | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state not in ("waiting", "running")


@dataclass(frozen=True, kw_only=True)
class NewRun:
    """A run as it is decided."""

    app: str
    kind: str
    release: int
    command: str
    server: str
    deploy: int | None = None


class Runs:
    """Static methods belong to the transaction of their caller."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def find(self, run: int) -> RunRow | None:
        """Return one, None where it is not there."""
        row = await self._database.read(lambda tx: tx.one("runs.find", id=run))
        return None if row is None else _run(row)

    async def underway(self) -> list[RunRow]:
        """Return those that have not ended, the oldest first."""
        return [_run(row) for row in await self._database.read(lambda tx: tx.all("runs.underway"))]

    async def of_deploy(self, deploy: int, kind: str) -> list[RunRow]:
        """Return the runs of a deploy."""
        rows = await self._database.read(lambda tx: tx.all("runs.of_deploy", deploy=deploy, kind=kind))
        return [_run(row) for row in rows]

    @staticmethod
    async def add(tx: Transaction, new: NewRun) -> int:
        """Add one that waits; return its number."""
        row = await tx.one(
            "runs.add",
            app=new.app,
            kind=new.kind,
            release=new.release,
            command=new.command,
            server=new.server,
            deploy=new.deploy,
        )
        assert row is not None  # noqa: S101 - INSERT … RETURNING gives one row
        return int(row["id"])

    @staticmethod
    async def begin(tx: Transaction, run: int) -> bool:
        """Say that one runs."""
        return await tx.run("runs.begin", id=run) == 1

    @staticmethod
    async def end(tx: Transaction, run: int, state: str, exit_code: int | None, reason: str) -> bool:
        """Say how one ended; False where it has ended already."""
        return await tx.run("runs.end", id=run, state=state, exit_code=exit_code, reason=reason) == 1


def _run(row: Row) -> RunRow:
    return RunRow(
        **{
            **row,
            "created_at": moment(row["created_at"]),
            "started_at": moment_or_none(row["started_at"]),
            "ended_at": moment_or_none(row["ended_at"]),
        }
    )
