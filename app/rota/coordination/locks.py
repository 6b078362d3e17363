"""The seam below the leader: a session that holds locks, and what it says when it ends."""

from collections.abc import Iterable
from typing import Protocol

from rota.coordination.epoch import Fence


class SessionLostError(Exception):
    """The lock session is gone, and every lock with it."""


class Locks(Protocol):
    """A session with the arbiter of leader locks.

    Every lock ends with the session. After SessionLostError the caller stops
    all it leads and calls `open` again. No method takes longer than the bounds
    in `tenure`; none is called twice at once.
    """

    async def open(self) -> None:
        """Begin a session. Raises SessionLostError when that fails."""

    async def probe(self) -> None:
        """Make sure that the session still stands. Raises SessionLostError."""

    async def acquire(self, tasks: Iterable[str]) -> list[Fence]:
        """Try once to take each lock, none of which may be held here already.

        Return a fence, with the raised epoch, for each one gained.
        """

    async def release(self, task: str) -> None:
        """Give one lock back and tell the other processes."""

    async def wait(self, seconds: float) -> None:
        """Return after this long, or at once when another process gives a lock back.

        Raises SessionLostError as soon as the session is known to have ended.
        """

    async def close(self) -> None:
        """End the session, which frees every lock. Never raises."""
