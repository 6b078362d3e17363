"""Clients that ask without a pause and count exactly what came of it."""

import http.client
import itertools
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.raw import Connection

# Every other client opens a connection for each request; every third request is a POST.
FRESH, POSTS = 2, 3
# Nothing came back: neither a byte of the answer nor a time-out.
CLOSED = (
    http.client.RemoteDisconnected,
    ConnectionResetError,
    BrokenPipeError,
    ssl.SSLEOFError,
    ssl.SSLZeroReturnError,
)


@dataclass
class Tally:
    """What came of the requests: how many were answered, and whatever else happened, by its text."""

    answered: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    # A reused connection that was closed without a byte, and the request answered on another. In HTTP/1.1 any
    # server may do this between two requests, and a client sends again.
    resent: int = 0

    @property
    def total(self) -> int:
        """Every request."""
        return self.answered + self.failed.total()


@contextmanager
def asking(
    connect: Callable[[], Connection],
    clients: int,
    path: str = "/",
    pause: float = 0.0,
    good: tuple[str, ...] = ("200",),
) -> Iterator[Tally]:
    """Keep clients asking for the length of the block; the tally is complete at its end.

    Args:
        connect: Opens a connection.
        clients: How many ask at once.
        path: What they ask for.
        pause: Seconds between two requests of a client.
        good: The statuses that are an answer, and no failure.
    """
    stop, lock, tally = threading.Event(), threading.Lock(), Tally()

    def client(number: int) -> None:
        connection: Connection | None = None
        for count in itertools.count():
            if stop.is_set():
                break
            connection, outcome, resent = _once(connect, connection, path, post=count % POSTS == 0)
            with lock:
                tally.resent += resent
                if outcome in good:
                    tally.answered += 1
                else:
                    tally.failed[outcome] += 1
            if connection is not None and number % FRESH == 0:
                connection.close()
                connection = None
            stop.wait(pause)
        if connection is not None:
            connection.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield tally
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _once(
    connect: Callable[[], Connection], kept: Connection | None, path: str, *, post: bool
) -> tuple[Connection | None, str, int]:
    """Ask once; return the connection to keep, the outcome, and 1 if a kept connection had been closed."""
    if kept is not None:
        try:
            return (*_ask(kept, path, post=post), 0)
        except CLOSED:
            kept.close()
        except (OSError, http.client.HTTPException) as error:
            kept.close()
            return None, repr(error), 0
    try:
        fresh = connect()
    except OSError as error:
        return None, f"no connection: {error!r}", 0
    try:
        return (*_ask(fresh, path, post=post), int(kept is not None))
    except (OSError, http.client.HTTPException) as error:
        fresh.close()
        return None, repr(error), 0


def _ask(connection: Connection, path: str, *, post: bool) -> tuple[Connection | None, str]:
    method, length = ("POST", ("Content-Length: 0",)) if post else ("GET", ())
    answer = connection.ask(method, path, *length)
    if answer.headers.get("connection") == "close":
        connection.close()
        return None, str(answer.status)
    return connection, str(answer.status)
