"""One attempt in the making: what its handler sees, and whether it still holds the job."""

import asyncio
import traceback
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rota.coordination.queue.job import Claimed
from rota.coordination.queue.kinds import Kind
from rota.coordination.queue.queue import Queue
from rota.errors import RotaError
from rota.store.database import Transaction

FRAMES = 3  # of a traceback, kept with an error


class LeaseLostError(RotaError):
    """The job belongs to another worker by now; nothing of this attempt counts any more."""


class Stop(Enum):
    """Why an attempt is being ended."""

    LOST = "its lease was lost"
    LATE = "it took longer than its kind allows"
    LEAVING = "its worker stops"


@dataclass(eq=False, slots=True)
class Attempt:
    """The `Job` that a handler is given, and its standing. Owned by its worker."""

    claimed: Claimed
    kind: Kind
    queue: Queue
    worker: str
    since: float  # by the loop's clock
    leased: float  # when the claim or its last renewal was asked for
    task: asyncio.Task[Any] | None
    payload: dict[str, Any] = field(default_factory=dict)
    stop: Stop | None = None
    finished: bool = False

    @property
    def id(self) -> int:
        """The job's id."""
        return self.claimed.id

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self.claimed.attempts

    async def finish(self, transaction: Transaction) -> None:
        """Finish the job in the handler's own transaction."""
        if self.stop is Stop.LOST or not await self.queue.finish(transaction, self.worker, self.claimed):
            self.stop = Stop.LOST
            raise LeaseLostError(f"job {self.id}: another worker has it by now")
        transaction.after_commit(self._finished)

    def end(self, stop: Stop) -> None:
        """Have its handler cancelled, once."""
        if self.stop is None and self.task is not None:
            self.stop = stop
            self.task.cancel()

    def was_cancelled(self) -> bool:
        """Tell whether the slot itself is being cancelled, and not only this attempt."""
        return self.task is not None and self.task.cancelling() > (self.stop is not None)

    def settle(self) -> None:
        """Leave the slot as it was, whatever the handler made of being cancelled."""
        if self.task is not None and self.task.cancelling():
            self.task.uncancel()

    def _finished(self) -> None:
        self.finished = True


def described(error: BaseException) -> str:
    """Return an error as it is kept with a job: type, message, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    places = ", ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames)
    return f"{type(error).__name__}: {error}" + (f" ({places})" if places else "")
