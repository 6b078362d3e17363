"""The database of one machine: SQLite, written by one thread and read by another."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

from rota.coordination.epoch import Fence
from rota.errors import BusyError, FencedError, UnreachableError
from rota.store.database import Pulse, Row, Work
from rota.store.migrations import pending
from rota.store.statements import statements

T = TypeVar("T")

DIALECT = "sqlite"
BUSY = 5.0  # seconds that SQLite itself waits for a lock of another process
EXCLUSIVE = 10.0  # seconds to wait for an exclusive name


class SqliteTransaction:
    """A transaction in the connection's own thread. Its methods never really wait."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Speak through this connection, whose transaction is open."""
        self._connection = connection
        self._sql = statements(DIALECT)
        self.committed: list[Callable[[], None]] = []

    async def one(self, statement: str, **values: object) -> Row | None:
        """Return the first row, or None."""
        row = self._connection.execute(self._sql[statement], values).fetchone()
        return None if row is None else dict(row)

    async def all(self, statement: str, **values: object) -> list[Row]:
        """Return every row."""
        return [dict(row) for row in self._connection.execute(self._sql[statement], values)]

    async def run(self, statement: str, **values: object) -> int:
        """Return the number of rows changed."""
        return self._connection.execute(self._sql[statement], values).rowcount

    def after_commit(self, call: Callable[[], None]) -> None:
        """Have this called after the commit, in the event loop."""
        self.committed.append(call)


class SqliteDatabase:
    """The `Database` seam on one file.

    `_writer` and `_reader` are each used only by the thread of the same name.
    """

    def __init__(self, path: Path, holder: str) -> None:
        """Keep everything in this file; `holder` names this process in what it records."""
        self._path = path
        self._holder = holder
        self._write_thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite-writer")
        self._read_thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite-reader")
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._names: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def open(self) -> None:
        """Make the file if there is none, and migrate it."""
        await self._hop(self._write_thread, self._open)

    async def read(self, work: Work[T]) -> T:
        """Run a unit of work on the reader's connection."""
        loop = asyncio.get_running_loop()
        return await self._hop(self._read_thread, lambda: self._unit(loop, self._reader, "BEGIN", work, None))

    async def write(self, work: Work[T], fence: Fence | None = None) -> T:
        """Run a unit of work under the write lock."""
        loop = asyncio.get_running_loop()
        return await self._hop(
            self._write_thread, lambda: self._unit(loop, self._writer, "BEGIN IMMEDIATE", work, fence)
        )

    async def exclusive(self, name: str, work: Work[T]) -> T:
        """Run a unit of work under a lock of this process and the write lock."""
        lock = self._names.setdefault(name, asyncio.Lock())
        try:
            async with asyncio.timeout(EXCLUSIVE):
                await lock.acquire()
        except TimeoutError:
            raise BusyError(f"{name}: someone else has been at it for {EXCLUSIVE:.0f} s: try again") from None
        try:
            return await self.write(work)
        finally:
            lock.release()

    async def pulse(self) -> Pulse:
        """Ask how the database is."""
        row = await self.read(lambda tx: tx.one("schema.pulse"))
        if row is None or row["schema"] is None:
            raise UnreachableError(f"{self._path} holds no schema yet")
        return Pulse(f"SQLite {row['server']}", row["schema"], row["tolerates"])

    async def close(self) -> None:
        """Close both connections and end both threads."""
        # One after the other: the last connection leaves one file, and of two that go at once neither is it.
        for thread, connection in ((self._read_thread, self._reader), (self._write_thread, self._writer)):
            await asyncio.get_running_loop().run_in_executor(thread, _close, connection)
        self._writer = self._reader = None
        self._write_thread.shutdown(wait=False)
        self._read_thread.shutdown(wait=False)

    async def _hop(self, thread: ThreadPoolExecutor, function: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, function)
        except sqlite3.DatabaseError as error:
            # The class itself stands for a file that is damaged or no database;
            # its other subclasses are mistakes of the program.
            if type(error) not in (sqlite3.DatabaseError, sqlite3.OperationalError):
                raise
            raise UnreachableError(f"{self._path}: {error}") from error
        except OSError as error:
            raise UnreachableError(f"{self._path}: {error.strerror}") from error

    def _open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _close(self._writer)
        _close(self._reader)
        self._writer = self._connect()
        self._writer.execute("PRAGMA journal_mode = WAL")
        self._reader = self._connect()
        self._migrate(self._writer)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=BUSY, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.create_function("now_us", 0, lambda: time.time_ns() // 1000)
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        sql = statements(DIALECT)
        connection.execute("BEGIN IMMEDIATE")
        try:
            if not connection.execute(sql["schema.exists"]).fetchone()["found"]:
                connection.execute(sql["schema.create"])
            applied = [dict(row) for row in connection.execute(sql["schema.applied"])]
            for step in pending(DIALECT, applied):
                for statement in _split(step.sql):
                    connection.execute(statement)
                record = {"number": step.number, "name": step.name, "tolerates": step.tolerates}
                connection.execute(
                    sql["schema.record"], record | {"digest": step.digest, "applied_by": self._holder}
                )
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _unit(
        self,
        loop: asyncio.AbstractEventLoop,
        connection: sqlite3.Connection | None,
        begin: str,
        work: Work[T],
        fence: Fence | None,
    ) -> T:
        open_connection = _present(connection)
        open_connection.execute(begin)
        try:
            transaction = SqliteTransaction(open_connection)
            if fence is not None:
                _drive(_still_leads(transaction, fence))
            result = _drive(cast("Coroutine[Any, Any, T]", work(transaction)))
        except BaseException:
            if open_connection.in_transaction:
                open_connection.execute("ROLLBACK")
            raise
        open_connection.execute("COMMIT")
        # Here, and not where the result is awaited: nobody may be waiting for it any more.
        for call in transaction.committed:
            loop.call_soon_threadsafe(call)
        return result


async def _still_leads(transaction: SqliteTransaction, fence: Fence) -> None:
    if await transaction.one("leaders.still_leads", **fence._asdict()) is None:
        raise FencedError(f"{fence.task}: epoch {fence.epoch} no longer leads this task")


def _drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a unit of work to its end in this thread. It must wait for nothing but its transaction."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    coroutine.close()
    raise RuntimeError("a unit of work may await nothing but its transaction")


def _present(connection: sqlite3.Connection | None) -> sqlite3.Connection:
    if connection is None:
        raise sqlite3.OperationalError("the database is not open")
    return connection


def _close(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        connection.close()


def _split(script: str) -> list[str]:
    """Split a migration into statements: `executescript` would commit the transaction around them."""
    found, gathered = [], ""
    for line in script.splitlines(keepends=True):
        gathered += line
        if sqlite3.complete_statement(gathered):
            found.append(gathered)
            gathered = ""
    return found
