"""One PostgreSQL connection of this process's own, outside every pool, on which no call outlasts its bound.

A timeout around a database call is no bound, since cancelling on a dead link
takes many seconds more. So a call that is late is left behind, and the
connection is closed beneath it.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping
from typing import Any, LiteralString, TypeVar

import psycopg

from rota.coordination.locks import SessionLostError
from rota.errors import UnreachableError
from rota.store.postgres_connection import Address, Connection, check_server, explain

T = TypeVar("T")


class Session:
    """Opened, lost and opened again by its one owner. Every failure is a SessionLostError."""

    def __init__(self, address: Address, purpose: str, bound: float) -> None:
        """Connect later; `purpose` shows in pg_stat_activity, `bound` is the seconds for any answer."""
        self._address = address
        self._purpose = purpose
        self._bound = bound
        self._connection: Connection | None = None

    @property
    def pid(self) -> int | None:
        """The backend of this session, as pg_stat_activity shows it; None without one."""
        return self._connection.info.backend_pid if self._connection else None

    @property
    def standing(self) -> Connection:
        """The connection itself. Raises SessionLostError where there is none."""
        if self._connection is None:
            raise SessionLostError("there is no session")
        return self._connection

    async def open(self, session: Mapping[str, str]) -> None:
        """Connect, to a server that this program can use, with these values set in the session."""
        try:
            # Bounded for each address that the host's name stands for, so that a dead one hides no other.
            self._connection = await self._address.connect(self._purpose)
            await self.bounded(self._prepare(session))
        except (psycopg.Error, OSError, UnreachableError) as error:
            raise SessionLostError(explain(error)) from error

    async def one(self, query: LiteralString, *values: object) -> dict[str, Any]:
        """Return the one row that a query gives, within the bound."""
        return await self.bounded(self._one(query, values))

    async def bounded(self, call: Coroutine[Any, Any, T]) -> T:
        """Await a call on the connection for the bound and not one second longer."""
        task = asyncio.ensure_future(call)
        try:
            done, _ = await asyncio.wait({task}, timeout=self._bound)
            if done:
                return task.result()
        except psycopg.Error as error:
            self.abandon()
            raise SessionLostError(explain(error)) from error
        except asyncio.CancelledError:
            # What a cancelled call asked for may have been granted: only the session's end is certain.
            self._leave(task)
            raise
        self._leave(task)
        raise SessionLostError(f"no answer within {self._bound:.0f} s")

    def abandon(self) -> None:
        """Close the socket itself, at once and without a word more."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with contextlib.suppress(psycopg.OperationalError):  # it has no socket any more
            # The descriptor's number is free from here on: whoever gets it next
            # must not find the loop still watching it for us.
            loop, descriptor = asyncio.get_running_loop(), connection.pgconn.socket
            loop.remove_reader(descriptor)
            loop.remove_writer(descriptor)
        connection.pgconn.finish()

    async def _prepare(self, session: Mapping[str, str]) -> None:
        await check_server(self.standing)
        for name, value in {**session, "search_path": self._address.schema}.items():
            await self.standing.execute("SELECT set_config(%s, %s, false)", (name, value))

    async def _one(self, query: LiteralString, values: tuple[object, ...]) -> dict[str, Any]:
        row = await (await self.standing.execute(query, values)).fetchone()
        if row is None:
            raise SessionLostError("the database answered nothing")
        return row

    def _leave(self, task: "asyncio.Future[Any]") -> None:
        self.abandon()
        task.cancel()
        task.add_done_callback(_consume)


def _consume(task: "asyncio.Future[Any]") -> None:
    """Take note of how a call ended that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
