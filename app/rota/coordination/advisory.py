"""Locks in a cluster: session advisory locks on one PostgreSQL connection of this process's own.

The connection stands outside every pool and is never recycled. The server ends
it after EXPIRY of silence, so a frozen or cut-off holder loses its locks there.
"""

import contextlib
from collections.abc import Iterable

import psycopg

from rota.coordination.epoch import Fence
from rota.coordination.keys import channel, leader_key
from rota.coordination.locks import SessionLostError
from rota.coordination.session import Session
from rota.coordination.tenure import ANSWER, EXPIRY
from rota.store.postgres_connection import Address, explain
from rota.store.statements import statements

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
        self._session = Session(address, "lock", ANSWER)

    @property
    def pid(self) -> int | None:
        """The backend that holds the locks, as pg_stat_activity shows it; None without a session."""
        return self._session.pid

    async def open(self) -> None:
        """Connect and prepare the session."""
        await self._session.open(_SESSION)
        await self._session.bounded(self._listen())

    async def probe(self) -> None:
        """Ask whether the session still stands, on a server that still may hand out locks."""
        row = await self._session.one("SELECT pg_is_in_recovery() AS standby")
        if row["standby"]:
            raise SessionLostError("the server has become a standby")

    async def acquire(self, tasks: Iterable[str]) -> list[Fence]:
        """Try each lock once; raise the epoch of each one gained, on this same connection."""
        names = {self._key(task): task for task in tasks}
        return await self._session.bounded(self._take(names))

    async def release(self, task: str) -> None:
        """Unlock and tell the others."""
        await self._session.one(
            "SELECT pg_advisory_unlock(%s), pg_notify(%s, '')", self._key(task), self._channel
        )

    async def wait(self, seconds: float) -> None:
        """Wait in the connection itself, so that its end is seen at once."""
        try:
            async for _ in self._session.standing.notifies(timeout=seconds, stop_after=1):
                pass  # somebody gave a lock back: it is time for a round
        except psycopg.Error as error:
            raise SessionLostError(explain(error)) from error

    async def close(self) -> None:
        """Unlock everything, tell the others, and disconnect; on a session in doubt only disconnect."""
        if self._session.pid is None:
            return
        with contextlib.suppress(SessionLostError):
            await self._session.one("SELECT pg_advisory_unlock_all(), pg_notify(%s, '')", self._channel)
        self._session.abandon()

    async def _listen(self) -> None:
        await self._session.standing.execute(f"LISTEN {self._channel}".encode())

    async def _take(self, names: dict[int, str]) -> list[Fence]:
        connection = self._session.standing
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

    def _key(self, task: str) -> int:
        return self._keys.setdefault(task, leader_key(self._address.schema, task))
