"""How this program connects to PostgreSQL, and what it refuses to work with."""

import contextlib
import secrets
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from rota.errors import ConfigurationError, UnreachableError
from rota.secret import Secret

Connection = psycopg.AsyncConnection[dict[str, Any]]

OLDEST_LIBPQ = 170000  # older ones can freeze the whole process while they cancel on a dead link
OLDEST_SERVER = 140000  # the first with idle_session_timeout

STANDBY = "the server is a standby, or read-only: point database.url at the primary server"

# A peer that vanishes is noticed within about nine seconds in either direction.
_CONNINFO = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 3,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
    "target_session_attrs": "read-write",
}


@dataclass(frozen=True)
class Address:
    """Where the database is, which schema is ours, and who we say we are."""

    url: str
    password: Secret
    schema: str
    holder: str

    def conninfo(self, purpose: str) -> str:
        """Return the connection string; `purpose` (pool, lock) shows in pg_stat_activity."""
        extra: dict[str, Any] = {"application_name": f"rota:{purpose}:{self.holder}", **_CONNINFO}
        if self.password:
            extra["password"] = self.password.reveal()
        return make_conninfo(self.url, **extra)

    async def connect(self, purpose: str) -> Connection:
        """Open a connection outside the pool, in autocommit mode."""
        return await psycopg.AsyncConnection.connect(
            self.conninfo(purpose), autocommit=True, row_factory=dict_row
        )


def check_library() -> None:
    """Refuse a libpq or a binding that this program cannot rely on. Raises ConfigurationError."""
    if pq.__impl__ == "python" or pq.version() < OLDEST_LIBPQ:
        raise ConfigurationError(
            f"psycopg works through its {pq.__impl__} binding with libpq {pq.version() // 10000}: "
            "install psycopg[binary], which brings libpq 17 or newer"
        )


async def check_server(connection: Connection) -> None:
    """Refuse a server that is too old, or a standby. Raises UnreachableError."""
    if connection.info.server_version < OLDEST_SERVER:
        raise UnreachableError(
            f"the server is PostgreSQL {connection.info.server_version // 10000}: it must be 14 or newer"
        )
    row = await (await connection.execute("SELECT pg_is_in_recovery() AS standby")).fetchone()
    if row is None or row["standby"]:
        raise UnreachableError(STANDBY)


async def check_session(address: Address) -> None:
    """Refuse a pooler that shares sessions: leader locks and LISTEN would be lost in it.

    While other clients hold sessions open, a session of ours must stay the same
    backend with the same settings. Looks after each one, since a small pooler
    has no session left for many. Raises ConfigurationError.
    """
    probe = secrets.token_hex(8)
    async with contextlib.AsyncExitStack() as stack:
        mine = await stack.enter_async_context(await address.connect("check"))
        await mine.execute("SELECT set_config('rota.probe', %s, false)", (probe,))
        first = await _identity(mine)
        same = first[1] == probe
        for _ in range(3):
            if not same:
                break
            other = await stack.enter_async_context(await address.connect("check"))
            await other.execute("BEGIN")
            await other.execute("SELECT 1")
            same = await _identity(mine) == first
    if not same:
        raise ConfigurationError(
            "database.direct_url: the address leads through a connection pooler that shares sessions "
            "between clients, where leader locks do not hold: give the database's own address"
        )


async def _identity(connection: Connection) -> tuple[int, str]:
    cursor = await connection.execute(
        "SELECT pg_backend_pid() AS pid, coalesce(current_setting('rota.probe', true), '') AS probe"
    )
    row = await cursor.fetchone()
    return (row["pid"], row["probe"]) if row else (0, "")


def explain(error: BaseException) -> str:
    """Return a database error as one line without secrets."""
    text = " ".join(str(error).split()) or type(error).__name__
    if text.endswith("session is read-only"):  # libpq's words, by target_session_attrs
        return STANDBY
    return text[:300]
