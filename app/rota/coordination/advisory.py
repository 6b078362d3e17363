"""Locks in a cluster: session advisory locks on one PostgreSQL connection of this process's own.

The connection stands outside every pool and is never recycled. The server ends
it after EXPIRY of silence, so a frozen or cut-off holder loses its locks there.
On this side every call has a hard bound: a timeout around a database call is
none, since cancelling on a dead link takes many seconds more; so a call that is
late is left behind and its connection closed beneath it.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

import psycopg

from rota.coordination.epoch import Fence
from rota.coordination.keys import channel, leader_key
from rota.coordination.locks import SessionLostError
from rota.coordination.tenure import ANSWER, EXPIRY
from rota.errors import UnreachableError
from rota.store.postgres_connection import Address, Connection, check_server, explain
from rota.store.statements import statements

T = TypeVar("T")

_SESSION = {
    "idle_session_timeout": f"{int(EXPIRY)}s",
    "statement_timeout": f"{int(ANSWER)}s",
    "tcp_keepalives_idle": "3",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}

# Each key once, in the select list of a materialised list: in a WHERE the
# planner may ask twice, and the lock would then need two unlocks.
_TRY = """
WITH wanted AS MATERIALIZED (SELECT unnest(%s::bigint[]) AS key)
SELECT key, pg_try_advisory_lock(key) AS got FROM wanted WHERE NOT pg_is_in_recovery()
"""


class AdvisoryLocks:
    """The `Locks` seam on PostgreSQL."""

    def __init__(self, address: Address) -> None:
        """Connect later, to an address without a pooler."""
        self._address = address
        self._channel = channel(address.schema, "leader")
        self._keys: dict[str, int] = {}
        self._connection: Connection | None = None

    @property
    def pid(self) -> int | None:
        """The backend that holds the locks, as pg_stat_activity shows it; None without a session."""
        return self._connection.info.backend_pid if self._connection else None

    async def open(self) -> None:
        """Connect and prepare the session."""
        try:
            # Bounded for each address that the host's name stands for, so that a dead one hides no other.
            self._connection = await self._address.connect("lock")
            await self._bounded(self._prepare(self._connection))
        except (psycopg.Error, OSError, UnreachableError) as error:
            raise SessionLostError(explain(error)) from error

    async def probe(self) -> None:
        """Ask whether the session still stands, on a server that still may hand out locks."""
        row = await self._bounded(self._one("SELECT pg_is_in_recovery() AS standby"))
        if row["standby"]:
            raise SessionLostError("the server has become a standby")

    async def acquire(self, tasks: Iterable[str]) -> list[Fence]:
        """Try each lock once; raise the epoch of each one gained, on this same connection."""
        names = {self._key(task): task for task in tasks}
        return await self._bounded(self._take(names))

    async def release(self, task: str) -> None:
        """Unlock and tell the others."""
        key = self._key(task)
        await self._bounded(self._one("SELECT pg_advisory_unlock(%s), pg_notify(%s, '')", key, self._channel))

    async def wait(self, seconds: float) -> None:
        """Wait in the connection itself, so that its end is seen at once."""
        try:
            async for _ in self._standing().notifies(timeout=seconds, stop_after=1):
                pass  # somebody gave a lock back: it is time for a round
        except psycopg.Error as error:
            raise SessionLostError(explain(error)) from error

    async def close(self) -> None:
        """Unlock everything, tell the others, and disconnect; on a session in doubt only disconnect."""
        connection = self._connection
        if connection is None:
            return
        with contextlib.suppress(SessionLostError):
            await self._bounded(
                self._one("SELECT pg_advisory_unlock_all(), pg_notify(%s, '')", self._channel)
            )
        self._abandon()

    async def _prepare(self, connection: Connection) -> None:
        await check_server(connection)
        for name, value in _SESSION.items():
            await connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        await connection.execute("SELECT set_config('search_path', %s, false)", (self._address.schema,))
        await connection.execute(f"LISTEN {self._channel}".encode())

    async def _take(self, names: dict[int, str]) -> list[Fence]:
        connection = self._standing()
        cursor = await connection.execute(_TRY, (list(names),))
        gained = [names[row["key"]] for row in await cursor.fetchall() if row["got"]]
        fences = []
        for task in gained:
            values = {"task": task, "holder": self._address.holder}
            cursor = await connection.execute(
                statements("postgresql")["leaders.raise_epoch"].encode(), values
            )
            row = await cursor.fetchone()
            if row is None:
                raise SessionLostError(f"no epoch for {task}")
            fences.append(Fence(task, row["generation"], row["epoch"]))
        return fences

    async def _one(self, query: str, *values: object) -> dict[str, Any]:
        row = await (await self._standing().execute(query.encode(), values)).fetchone()
        if row is None:
            raise SessionLostError("the database answered nothing")
        return row

    async def _bounded(self, call: Coroutine[Any, Any, T]) -> T:
        """Await a call on the connection for ANSWER seconds and not one longer."""
        task = asyncio.ensure_future(call)
        try:
            done, _ = await asyncio.wait({task}, timeout=ANSWER)
            if done:
                return task.result()
        except psycopg.Error as error:
            self._abandon()
            raise SessionLostError(explain(error)) from error
        except asyncio.CancelledError:
            # A cancelled try may have been granted: only the session's end is certain.
            self._leave(task)
            raise
        self._leave(task)
        raise SessionLostError(f"no answer within {ANSWER:.0f} s")

    def _leave(self, task: "asyncio.Future[Any]") -> None:
        self._abandon()
        task.cancel()
        task.add_done_callback(_consume)

    def _abandon(self) -> None:
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

    def _standing(self) -> Connection:
        if self._connection is None:
            raise SessionLostError("there is no session")
        return self._connection

    def _key(self, task: str) -> int:
        return self._keys.setdefault(task, leader_key(self._address.schema, task))


def _consume(task: "asyncio.Future[Any]") -> None:
    """Take note of how a call ended that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
