"""The database of a cluster: PostgreSQL through a small pool."""

import contextlib
import select
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import psycopg
from psycopg import errors, sql
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from rota.coordination.epoch import Fence
from rota.coordination.keys import exclusive_key
from rota.errors import BusyError, FencedError, UnreachableError
from rota.store.database import Pulse, Row, Work
from rota.store.migrations import pending
from rota.store.postgres_connection import (
    Address,
    Connection,
    check_library,
    check_server,
    check_session,
    explain,
)
from rota.store.statements import statements

T = TypeVar("T")

DIALECT = "postgresql"
CHECKOUT = 5.0  # seconds to wait for a connection of the pool
PULSE = 1.5  # the pulse gives up sooner: asking anew is what makes the pool try again after an outage
MIGRATIONS = "migrations"
# A frozen process must not keep a successor from raising the epoch: a fenced
# transaction that falls idle is ended before a new leader can start.
FENCED_IDLE = "4s"

_SESSION = {
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "30s",
    "client_connection_check_interval": "2s",
    "timezone": "UTC",
}

# A process that was frozen meets the end of its transaction once it thaws.
_AWAY = (psycopg.OperationalError, errors.ReadOnlySqlTransaction, errors.IdleInTransactionSessionTimeout)


class PostgresTransaction:
    """An open transaction on one connection of the pool."""

    def __init__(self, connection: Connection) -> None:
        """Speak through this connection."""
        self._connection = connection
        self._sql = statements(DIALECT)
        self.committed: list[Callable[[], None]] = []

    async def one(self, statement: str, **values: object) -> Row | None:
        """Return the first row, or None."""
        return await (await self._execute(statement, values)).fetchone()

    async def all(self, statement: str, **values: object) -> list[Row]:
        """Return every row."""
        return list(await (await self._execute(statement, values)).fetchall())

    async def run(self, statement: str, **values: object) -> int:
        """Return the number of rows changed."""
        return (await self._execute(statement, values)).rowcount

    def after_commit(self, call: Callable[[], None]) -> None:
        """Have this called after the commit."""
        self.committed.append(call)

    async def _execute(self, statement: str, values: dict[str, Any]) -> psycopg.AsyncCursor[dict[str, Any]]:
        return await self._connection.execute(self._sql[statement].encode(), values)


class PostgresDatabase:
    """The `Database` seam on PostgreSQL. `direct` leads past any pooler, for what needs a session."""

    def __init__(self, address: Address, direct: Address, pool_size: int) -> None:
        """Connect later: nothing is opened here."""
        check_library()
        self._address = address
        self._direct = direct
        # A pooler may give each transaction another session, which then knows
        # nothing of ours: neither what was set in it nor what was prepared.
        self._pooled = direct.url != address.url
        self._size = pool_size
        self._pool: AsyncConnectionPool[Connection] | None = None

    async def open(self) -> None:
        """Check the server, migrate under a lock, and open the pool."""
        try:
            async with await self._direct.connect("migrate") as connection:
                await check_server(connection)
                await check_session(self._direct)
                await self._migrate(connection)
            if self._pool is None:
                self._pool = self._new_pool()
                await self._pool.open()
        except (psycopg.Error, OSError) as error:
            raise UnreachableError(explain(error)) from error

    async def read(self, work: Work[T]) -> T:
        """Run a unit of work in a transaction."""
        async with self._unit() as transaction:
            return await work(transaction)

    async def write(self, work: Work[T], fence: Fence | None = None) -> T:
        """Run a unit of work in a transaction, the fence checked first and locked."""
        async with self._unit(idle=FENCED_IDLE if fence else None) as transaction:
            if fence is not None and await transaction.one("leaders.still_leads", **fence._asdict()) is None:
                raise FencedError(f"{fence.task}: epoch {fence.epoch} no longer leads this task")
            return await work(transaction)

    async def exclusive(self, name: str, work: Work[T]) -> T:
        """Run a unit of work under a transaction-scoped advisory lock."""
        async with self._unit(exclusive=name) as transaction:
            return await work(transaction)

    async def pulse(self) -> Pulse:
        """Ask how the database is. Tables that are gone, or not ours to read, are an answer too."""
        try:
            async with self._unit(wait=PULSE) as transaction:
                row = await transaction.one("schema.pulse")
        except psycopg.Error as error:
            raise UnreachableError(explain(error)) from error
        if row is None or row["schema"] is None:
            raise UnreachableError(f"{self._address.schema} holds no schema yet")
        return Pulse(f"PostgreSQL {row['server'].split(' ')[0]}", row["schema"], row["tolerates"])

    async def close(self) -> None:
        """Close the pool."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close(timeout=2.0)

    def _new_pool(self) -> AsyncConnectionPool[Connection]:
        # reconnect_timeout is short so that a waiting caller, not a long
        # back-off, decides when the next attempt is made after an outage.
        return AsyncConnectionPool(
            self._address.conninfo("pool"),
            kwargs={"row_factory": dict_row, **({"prepare_threshold": None} if self._pooled else {})},
            min_size=1,
            max_size=self._size,
            timeout=CHECKOUT,
            reconnect_timeout=1.0,
            configure=self._configure,
            check=self._check,
            open=False,
        )

    async def _configure(self, connection: Connection) -> None:
        # SET, not the options parameter of the connection: poolers reject that.
        if self._pooled:
            return
        await connection.set_autocommit(True)
        await self._set(connection, local=False)
        await connection.set_autocommit(False)

    async def _check(self, connection: Connection) -> None:
        """Give nobody a connection that the server ended while it lay in the pool, nor one beside it.

        One that nothing has come on is not asked, so this costs no round trip.
        """
        if self._pool is None or not _something_came(connection):
            return
        try:
            await self._pool.check_connection(connection)
        except psycopg.OperationalError:
            await self._pool.check()
            raise

    async def _set(self, connection: Connection, *, local: bool) -> None:
        """Set what every transaction relies on, in the session or in the transaction alone."""
        session = {**_SESSION, "search_path": self._address.schema}
        calls = ", ".join("set_config(%s, %s, %s)" for _ in session)
        values = [value for name, setting in session.items() for value in (name, setting, local)]
        await connection.execute(f"SELECT {calls}".encode(), values)

    @contextlib.asynccontextmanager
    async def _unit(
        self, *, wait: float = CHECKOUT, idle: str | None = None, exclusive: str | None = None
    ) -> AsyncIterator[PostgresTransaction]:
        if self._pool is None:
            raise UnreachableError("the database has not been reached yet")
        try:
            async with self._pool.connection(timeout=wait) as connection:
                if self._pooled:
                    await self._set(connection, local=True)
                if idle is not None:
                    await connection.execute(
                        "SELECT set_config('idle_in_transaction_session_timeout', %s, true)", (idle,)
                    )
                if exclusive is not None:
                    key = exclusive_key(self._address.schema, exclusive)
                    await connection.execute("SELECT pg_advisory_xact_lock(%s)", (key,))
                transaction = PostgresTransaction(connection)
                yield transaction
        except errors.LockNotAvailable as error:
            name = exclusive or "a row"
            raise BusyError(f"{name}: someone else has been at it for 10 s: try again") from error
        except PoolTimeout as error:
            raise UnreachableError(f"no connection to the database within {wait:g} s") from error
        except _AWAY as error:
            raise UnreachableError(explain(error)) from error
        for call in transaction.committed:
            call()

    async def _migrate(self, connection: Connection) -> None:
        """Bring the schema up to date, once, whichever process comes first."""
        name = statements(DIALECT)
        async with connection.transaction():
            key = exclusive_key(self._address.schema, MIGRATIONS)
            await connection.execute("SELECT set_config('lock_timeout', '60s', true)")
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (key,))
            await self._own_schema(connection)
            exists = await (await connection.execute(name["schema.exists"].encode())).fetchone()
            if not exists or not exists["found"]:
                await connection.execute(name["schema.create"].encode())
            applied = await (await connection.execute(name["schema.applied"].encode())).fetchall()
            for step in pending(DIALECT, applied):
                await connection.execute(step.sql.encode())
                await connection.execute(
                    name["schema.record"].encode(),
                    {
                        "number": step.number,
                        "name": step.name,
                        "tolerates": step.tolerates,
                        "digest": step.digest,
                        "applied_by": self._address.holder,
                    },
                )

    async def _own_schema(self, connection: Connection) -> None:
        cursor = await connection.execute(
            "SELECT 1 AS found FROM pg_namespace WHERE nspname = %s", (self._address.schema,)
        )
        if await cursor.fetchone() is None:
            await connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self._address.schema)))
        await connection.execute("SELECT set_config('search_path', %s, true)", (self._address.schema,))


def _something_came(connection: Connection) -> bool:
    """Tell whether an idle connection has bytes to read, or its end."""
    waiting = select.poll()
    waiting.register(connection.pgconn.socket, select.POLLIN)
    return bool(waiting.poll(0))
