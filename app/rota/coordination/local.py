"""Locks on one machine: always held, because there is one process. Epochs count all the same."""

import asyncio
from collections.abc import Iterable

from rota.coordination.epoch import Fence
from rota.coordination.locks import SessionLostError
from rota.errors import RotaError
from rota.store.database import Database, Transaction


class LocalLocks:
    """The `Locks` seam for SQLite; that there is one process is settled by a flock at start."""

    def __init__(self, database: Database, holder: str) -> None:
        """Keep epochs in this database."""
        self._database = database
        self._holder = holder

    async def open(self) -> None:
        """Begin: nothing to do."""

    async def probe(self) -> None:
        """A process does not lose contact with itself."""

    async def acquire(self, tasks: Iterable[str]) -> list[Fence]:
        """Take every lock, raising its epoch."""
        try:
            return await self._database.write(lambda tx: raise_epochs(tx, tasks, self._holder))
        except RotaError as error:
            raise SessionLostError(str(error)) from error

    async def release(self, task: str) -> None:
        """Give back a lock that nobody else could take."""

    async def wait(self, seconds: float) -> None:
        """Wait out the round."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """End: nothing to do."""


async def raise_epochs(transaction: Transaction, tasks: Iterable[str], holder: str) -> list[Fence]:
    """Raise the epoch of each task in one transaction."""
    fences = []
    for task in tasks:
        row = await transaction.one("leaders.raise_epoch", task=task, holder=holder)
        if row is not None:
            fences.append(Fence(task, row["generation"], row["epoch"]))
    return fences
