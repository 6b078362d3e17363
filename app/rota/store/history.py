"""What the background tasks did, one row an execution."""

from dataclasses import dataclass
from datetime import datetime

from rota.coordination.epoch import Fence
from rota.store.database import Database, Row, Transaction
from rota.store.moments import moment, moment_or_none


@dataclass(frozen=True)
class Execution:
    """One execution of a task; `outcome` is a sentence, None while it runs."""

    task: str
    started_at: datetime
    finished_at: datetime | None
    outcome: str | None


class History:
    """Writes under the fence of the task that runs."""

    def __init__(self, database: Database) -> None:
        """Keep history in this database."""
        self._database = database

    async def begin(self, fence: Fence) -> int:
        """Note that a task begins, and that no earlier execution of it goes on; return the row's id."""

        async def work(tx: Transaction) -> Row | None:
            await tx.run("history.abandon", task=fence.task)
            return await tx.one("history.begin", task=fence.task)

        row = await self._database.write(work, fence)
        assert row is not None  # noqa: S101 - INSERT … RETURNING gives one row
        return int(row["id"])

    async def finish(self, fence: Fence, run: int, outcome: str) -> None:
        """Note how it ended, in one sentence."""
        await self._database.write(lambda tx: tx.run("history.finish", id=run, outcome=outcome), fence)

    async def last(self, task: str) -> tuple[datetime | None, datetime]:
        """Return when the task last began, and the time now, both by the database's clock."""
        row = await self._database.read(lambda tx: tx.one("history.last", task=task))
        assert row is not None  # noqa: S101 - an aggregate always gives one row
        return moment_or_none(row["at"]), moment(row["now"])

    async def recent(self, limit: int) -> list[Execution]:
        """Return the newest executions, newest first."""
        rows = await self._database.read(lambda tx: tx.all("history.recent", limit=limit))
        return [
            Execution(
                row["task"], moment(row["started_at"]), moment_or_none(row["finished_at"]), row["outcome"]
            )
            for row in rows
        ]

    async def prune(self, fence: Fence, days: int) -> int:
        """Remove what began longer ago; return how many rows."""
        return await self._database.write(lambda tx: tx.run("history.prune", days=days), fence)
