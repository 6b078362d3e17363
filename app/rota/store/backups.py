"""The backups made, one row each."""

from dataclasses import dataclass
from datetime import datetime

from rota.coordination.epoch import Fence
from rota.store.database import Database, Transaction
from rota.store.moments import moment, moment_or_none
from rota.store.tlog import Nudge, Outbox


@dataclass(frozen=True)
class BackupRecord:
    """One backup. `state` is running, complete, failed or removed; `digest` is BLAKE3, in hex."""

    name: str
    cause: str
    state: str
    started_at: datetime
    finished_at: datetime | None
    size: int | None
    digest: str | None
    error: str | None


class Backups:
    """Changes are compare-and-set on the row's state; scheduled ones carry a fence, an operator's none."""

    def __init__(self, database: Database, nudge: Nudge | None = None) -> None:
        """Keep the records in this database; nudge when an act is put out."""
        self._database = database
        self._nudge = nudge

    async def begin(self, name: str, fence: Fence | None) -> None:
        """Record that a backup of this name begins."""
        cause = "schedule" if fence else "operator"
        await self._database.write(lambda tx: tx.run("backups.begin", name=name, cause=cause), fence)

    async def complete(
        self, name: str, size: int, digest: str, fence: Fence | None, act: bytes | None = None
    ) -> bool:
        """Record that it is whole, and put the act out; return False where it no longer runs."""

        async def work(tx: Transaction) -> bool:
            changed = await tx.run("backups.complete", name=name, size=size, digest=digest) == 1
            if changed and act is not None:
                await Outbox.add(tx, act, self._nudge)
            return changed

        return await self._database.write(work, fence)

    async def fail(self, name: str, error: str, fence: Fence | None) -> bool:
        """Record why it could not be made; return False where it no longer runs."""
        changed = await self._database.write(lambda tx: tx.run("backups.fail", name=name, error=error), fence)
        return changed == 1

    async def remove(self, name: str, fence: Fence | None, act: bytes | None = None) -> None:
        """Record that its file is about to go, and put the act out."""

        async def work(tx: Transaction) -> None:
            if await tx.run("backups.remove", name=name) and act is not None:
                await Outbox.add(tx, act, self._nudge)

        await self._database.write(work, fence)

    async def all(self) -> list[BackupRecord]:
        """Return every record, newest first."""
        rows = await self._database.read(lambda tx: tx.all("backups.all"))
        return [
            BackupRecord(
                name=row["name"],
                cause=row["cause"],
                state=row["state"],
                started_at=moment(row["started_at"]),
                finished_at=moment_or_none(row["finished_at"]),
                size=row["size"],
                digest=row["digest"],
                error=row["error"],
            )
            for row in rows
        ]

    async def last_scheduled(self) -> tuple[datetime | None, datetime | None, datetime]:
        """Return when the last good scheduled one and the last failed one began, and the time now.

        All by the database's clock.
        """
        row = await self._database.read(lambda tx: tx.one("backups.last_scheduled"))
        assert row is not None  # noqa: S101 - an aggregate always gives one row
        return moment_or_none(row["at"]), moment_or_none(row["failed_at"]), moment(row["now"])

    async def prune(self, fence: Fence, days: int) -> int:
        """Forget removed and failed ones that began longer ago; return how many rows."""
        return await self._database.write(lambda tx: tx.run("backups.prune", days=days), fence)
