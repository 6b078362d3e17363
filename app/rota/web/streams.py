"""The streams of one process: bounded in number, and each in what may wait for it."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Self

from rota.access.principal import Principal
from rota.web.problems import Problem

MOST = 2048  # streams of one process
MOST_EACH = 64  # of one account in one process
ABORT = "rota.abort"  # in a request's scope: ends its connection, if the server has such a function
MOST_WAITING = 256  # events that may wait for one client: one that lets more wait is dropped

_AGAIN = {"Retry-After": "5"}


@dataclass(kw_only=True)
class Counts:
    """What is counted since the process began."""

    sent: int = 0
    dropped: int = 0  # clients that did not keep up
    reloads: int = 0  # clients told to read everything again
    revoked: int = 0  # streams ended since their token or session was over


class Stream:
    """One client's events, ready to be sent: what Falcon iterates over, and closes at the end.

    The same bytes wait in every stream. Owned by the event loop.
    """

    def __init__(
        self, principal: Principal, topics: frozenset[str], counts: Counts, closed: Callable[["Stream"], None]
    ) -> None:
        """Belong to this caller, who hears these topics; `closed` is called once."""
        self.principal = principal
        self.topics = topics
        self._counts = counts
        self._closed = closed
        self._waiting: deque[bytes] = deque()
        self._bell = asyncio.Event()
        self._ended = False
        self._idle = False  # the client has taken all that there was
        self._request: asyncio.Task[object] | None = None
        self.abort: Callable[[], None] | None = None  # ends the connection

    def put(self, data: bytes) -> None:
        """Send this next; drop a client for whom too much waits already."""
        if self._ended:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._counts.dropped += 1
            self.cut()
            return
        self._waiting.append(data)
        self._counts.sent += 1
        self._bell.set()

    def end(self, last: bytes = b"") -> None:
        """End after these last words; at once for a client that takes nothing."""
        if not self._idle and self._request is not None:
            self.cut()
        elif not self._ended:
            self._waiting.append(last)
            self._ended = True
            self._bell.set()

    def cut(self) -> None:
        """End at once, in the middle of whatever is being sent."""
        self._ended = True
        self._waiting.clear()
        self._bell.set()
        if self._request is not None:
            self._request.cancel()
        if self.abort is not None:
            self.abort()  # or what waits to be sent keeps it open for as long as the client likes

    def __aiter__(self) -> Self:
        """Iterate until the stream ends."""
        return self

    async def __anext__(self) -> bytes:
        """Wait for what is to be sent next: all that waits, in one piece."""
        self._request = asyncio.current_task()
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            self._bell.clear()
            self._idle = True
            await self._bell.wait()
        self._idle = False
        data = b"".join(self._waiting)
        self._waiting.clear()
        return data

    async def close(self) -> None:
        """Let go, however it ended."""
        self._ended, self._request = True, None
        self._closed(self)


class Streams:
    """All streams of one process."""

    def __init__(self) -> None:
        """Have none yet."""
        self.counts = Counts()
        self._open: set[Stream] = set()
        self._accounts: Counter[int] = Counter()

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def __iter__(self) -> Iterator[Stream]:
        """Iterate over those that are open now, whatever opens or ends meanwhile."""
        return iter(list(self._open))

    def admit(self, principal: Principal) -> None:
        """Raise Problem where no further stream of this caller has room."""
        if len(self._open) >= MOST:
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "Too many streams",
                f"This process has {MOST} streams, and no room for another one.",
                "Try again in a few seconds, or through another process of the hub.",
                headers=_AGAIN,
            )
        if self._accounts[principal.account] >= MOST_EACH:
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                "Too many streams",
                f"{principal.name} has {MOST_EACH} streams in this process, as many as one account may have.",
                "Close a page that is open elsewhere, or share one stream between several topics.",
                headers=_AGAIN,
            )

    def open(self, principal: Principal, topics: frozenset[str], closed: Callable[[Stream], None]) -> Stream:
        """Return a new stream; `closed` is called when it has ended."""

        def forget(stream: Stream) -> None:
            if stream in self._open:
                self._open.discard(stream)
                self._accounts[principal.account] -= 1
                closed(stream)

        stream = Stream(principal, topics, self.counts, forget)
        request = asyncio.current_task()
        if request is not None:  # also where the client has left before anything was sent
            request.add_done_callback(lambda _: forget(stream))
        self._open.add(stream)
        self._accounts[principal.account] += 1
        return stream

    def tell(self, topic: str, data: bytes) -> None:
        """Send this to everyone who hears the topic."""
        for stream in self._open:
            if topic in stream.topics:
                stream.put(data)

    def tell_all(self, data: bytes) -> None:
        """Send this to everyone."""
        for stream in self._open:
            stream.put(data)

    def callers(self) -> set[Principal]:
        """Return whose streams are open."""
        return {stream.principal for stream in self._open}

    def end(self, over: Iterable[Principal], last: bytes) -> None:
        """End the streams of these callers."""
        gone = set(over)
        for stream in self:
            if stream.principal in gone:
                self.counts.revoked += 1
                stream.end(last)
