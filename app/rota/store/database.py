"""The database seam: whole units of work, in named statements.

A unit of work is a coroutine function that is given a transaction and awaits
nothing else. On PostgreSQL it runs in the event loop; on SQLite the whole of it
runs in one hop to the thread that owns the connection, which is possible
because nothing in it waits. A unit that awaits anything but its transaction is
a programming error, and SQLite says so.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from rota.coordination.epoch import Fence

T = TypeVar("T")
Row = Mapping[str, Any]


class Transaction(Protocol):
    """One open transaction. Statements are named `file.name`, after their SQL file.

    Times go in and come out as whole microseconds since 1970, UTC.
    """

    async def one(self, statement: str, **values: object) -> Row | None:
        """Return the first row, or None."""

    async def all(self, statement: str, **values: object) -> list[Row]:
        """Return every row."""

    async def run(self, statement: str, **values: object) -> int:
        """Return the number of rows changed."""

    def after_commit(self, call: Callable[[], None]) -> None:
        """Have this called in the event loop once the transaction has committed, and else never."""


Work = Callable[[Transaction], Awaitable[T]]


@dataclass(frozen=True)
class Pulse:
    """What a living database says of itself."""

    server: str  # such as "PostgreSQL 17.5"
    schema: int  # the number of the newest migration applied
    tolerates: int  # the oldest program schema number that may still use it


class Database(Protocol):
    """Where everything that must not be lost is kept.

    Durable when `write` and `exclusive` return. A cancelled call may have been
    committed: callers make their writes safe to repeat. Every method raises
    UnreachableError when the database is not there; nothing retries by itself.
    """

    async def open(self) -> None:
        """Connect, check that the database can be used, and migrate it.

        Raises UnreachableError (try again) or ConfigurationError (do not).
        """

    async def read(self, work: Work[T]) -> T:
        """Run a unit of work that changes nothing."""

    async def write(self, work: Work[T], fence: Fence | None = None) -> T:
        """Run a unit of work and commit it.

        With a fence, first make sure in the same transaction that this epoch
        still leads, and keep it so until the commit. Raises FencedError.
        """

    async def exclusive(self, name: str, work: Work[T]) -> T:
        """Run a unit of work that no other process runs under the same name meanwhile.

        Raises BusyError when it cannot begin within ten seconds.
        """

    async def pulse(self) -> Pulse:
        """Ask the database how it is, with one small query."""

    async def close(self) -> None:
        """Let go of every connection. Never raises."""
