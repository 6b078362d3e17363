"""The log as the hub's processes use it: one that appends, and one that only reads."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from rota.errors import TlogError
from rota.tlog import segments
from rota.tlog.batches import Batches
from rota.tlog.disk import Disk
from rota.tlog.frames import Position
from rota.tlog.records import Logged, Records
from rota.tlog.segments import Tail


class Tlog(Protocol):
    """The seam. Every method raises TlogError, or BusyError where trying again is worth it."""

    async def append(self, entry: bytes) -> Logged:
        """Append an entry; return where it stands once it is durable."""

    async def append_once(self, entries: Sequence[bytes], since: Position) -> list[Logged]:
        """Append those entries that do not stand after `since` already; return where each one stands."""

    async def settle(self) -> Tail:
        """Return where the log ends, once all of it is durable."""

    async def head(self) -> Tail:
        """Return where the log ends now, other processes' entries included."""

    async def close(self) -> None:
        """Append what waits, and let go. Never raises."""


class AppendingLog:
    """For a process with the role web."""

    def __init__(self, disk: Disk, open_records: Callable[[], Awaitable[Records]]) -> None:
        """Append through the records that are opened with the first entry, and used by this object alone."""
        self._disk = disk
        self._open_records = open_records
        self._records: Records | None = None
        self._opening = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tlog")
        self._batches = Batches(self._write)

    async def append(self, entry: bytes) -> Logged:
        """Append an entry, together with those of others that wait."""
        return await self._batches.add(entry)

    async def append_once(self, entries: Sequence[bytes], since: Position) -> list[Logged]:
        """Append those entries that do not stand after `since` already."""
        return await self._write(entries, since)

    async def settle(self) -> Tail:
        """Return where the log ends, once all of it is durable."""
        work = (await self._opened()).settle
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def head(self) -> Tail:
        """Return where the log ends now."""
        return await looked(self._disk)

    async def close(self) -> None:
        """Append what waits, and let go."""
        await self._batches.close()
        self._thread.shutdown(wait=False)

    async def _write(self, entries: Sequence[bytes], since: Position | None = None) -> list[Logged]:
        work = partial((await self._opened()).append, entries, since)
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _opened(self) -> Records:
        async with self._opening:
            if self._records is None:
                self._records = await self._open_records()
            return self._records


class ReadingLog:
    """For a process that is only a worker: it never changes a file."""

    def __init__(self, disk: Disk) -> None:
        """Read these files."""
        self._disk = disk

    async def append(self, entry: bytes) -> Logged:  # noqa: ARG002 - the seam's signature
        """Refuse."""
        raise TlogError("this process only reads the tlog: a worker's act goes through the outbox")

    async def append_once(self, entries: Sequence[bytes], since: Position) -> list[Logged]:  # noqa: ARG002
        """Refuse."""
        raise TlogError("this process only reads the tlog: a worker's act goes through the outbox")

    async def settle(self) -> Tail:
        """Refuse."""
        raise TlogError("this process only reads the tlog, and makes nothing in it durable")

    async def head(self) -> Tail:
        """Return where the log ends now."""
        return await looked(self._disk)

    async def close(self) -> None:
        """Let go of nothing: each look opens the files anew."""


async def looked(disk: Disk) -> Tail:
    """Look at the files' end, in a thread. Raises TlogError."""
    try:
        return await asyncio.to_thread(segments.look, disk)
    except OSError as error:
        raise TlogError(f"the tlog's files cannot be read: {error.strerror}") from error
