"""Group commit: entries that come while a batch is being written make up the next one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from rota.errors import BusyError, RotaError, TlogError
from rota.tlog.frames import MOST_BODY, MOST_ENTRIES
from rota.tlog.records import Logged
from rota.tlog.tiles import LONGEST_ENTRY

MOST_WAITING = 4096  # entries; more are refused at once
_LENGTH = 2  # bytes before each entry in a frame

Write = Callable[[Sequence[bytes]], Awaitable[list[Logged]]]
Waiting = tuple[bytes, "asyncio.Future[Logged]"]


class Batches:
    """Writes one batch at a time; each entry's producer waits for its own answer."""

    def __init__(self, write: Write) -> None:
        """Hand each batch to `write`."""
        self._write = write
        self._waiting: deque[Waiting] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._closed = False

    async def add(self, entry: bytes) -> Logged:
        """Return where the entry stands. Raises what writing its batch raised.

        A producer that is cancelled takes only its own entry with it, which may
        then be in the log or not.
        """
        if len(entry) > LONGEST_ENTRY:
            raise TlogError(
                f"an entry of the tlog has at most {LONGEST_ENTRY} bytes, and this one {len(entry)}"
            )
        if self._closed:
            raise BusyError("this process is stopping and appends no more: try again")
        if len(self._waiting) >= MOST_WAITING:
            raise BusyError(f"{MOST_WAITING} entries wait for the tlog already: try again later")
        answer: asyncio.Future[Logged] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, answer))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._run(), name="tlog.batches")
        return await answer

    async def close(self) -> None:
        """Take no more, and write what waits."""
        self._closed = True
        if self._writer is not None:
            await asyncio.wait({self._writer})

    async def _run(self) -> None:
        while self._waiting:
            batch = self._next()
            if not batch:
                continue
            try:
                found = await self._write([entry for entry, _ in batch])
            except RotaError as error:
                _answer_all(batch, error)
            except BaseException as error:
                _answer_all(batch, TlogError(f"appending to the tlog crashed: {error}"))
                raise
            else:
                for (_, answer), logged in zip(batch, found, strict=True):
                    if not answer.done():
                        answer.set_result(logged)

    def _next(self) -> list[Waiting]:
        """Take what fits into one frame, less what nobody waits for any more."""
        batch: list[Waiting] = []
        room = MOST_BODY
        while self._waiting and len(batch) < MOST_ENTRIES:
            room -= len(self._waiting[0][0]) + _LENGTH
            if room < 0:
                break
            entry, answer = self._waiting.popleft()
            if not answer.done():
                batch.append((entry, answer))
        return batch


def _answer_all(batch: Sequence[Waiting], error: RotaError) -> None:
    for _, answer in batch:
        if not answer.done():
            answer.set_exception(error)
