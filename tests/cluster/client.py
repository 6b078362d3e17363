"""Clients of a hub that ask without an end, and count exactly what came of it.

Usage: python -m tests.cluster.client ADDRESS NAME. Asks NAME at ADDRESS over TLS, on kept connections and on
fresh ones, reading and writing, for quick answers and for slow ones, and holds streams open. Ends when its
standard input does, and prints the tally as JSON.
"""

import http.client
import json
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

PORT = 443
PAUSE = 0.1  # seconds between two requests of one client
LONGEST = 15.0  # seconds for one answer
SHOWN = 10  # failures that the summary shows
BODY = {"a": "body"}
# Nothing came back, not one byte: the other side had closed.
CLOSED = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)
BROKEN = (OSError, http.client.HTTPException, ValueError)


@dataclass(frozen=True)
class Kind:
    """What one client does over and over."""

    method: str
    path: str
    kept: bool

    @property
    def name(self) -> str:
        """How the tally calls it."""
        return f"{self.method} {self.path} on {'kept' if self.kept else 'fresh'} connections"


KINDS = (
    *(Kind(method, "/trial/quick", kept) for method in ("GET", "POST") for kept in (True, False)),
    *(Kind(method, "/trial/slow", kept) for method in ("GET", "POST") for kept in (True, False)),
    Kind("GET", "/trial/quick", kept=True),
    Kind("GET", "/trial/slow", kept=True),
)
STREAMS = 3


@dataclass
class Count:
    """What came of one kind of request.

    `resent` counts the reads that found a kept connection closed without a byte and were answered on another.
    """

    answered: int = 0
    resent: int = 0
    failed: list[str] = field(default_factory=list)


@dataclass
class Tally:
    """What came of it all: by kind; who answered, as NAME VERSION; and how the streams ended.

    `told` streams ended in order, having said that the reader should reconnect; `cut` ones did not.
    """

    counts: dict[str, Count] = field(default_factory=dict)
    answered_by: dict[str, int] = field(default_factory=dict)
    told: int = 0
    cut: list[str] = field(default_factory=list)

    @property
    def answered(self) -> int:
        """Every request that was answered as it should be."""
        return sum(count.answered for count in self.counts.values())

    @property
    def resent(self) -> int:
        """Every read that was sent twice."""
        return sum(count.resent for count in self.counts.values())

    @property
    def failed(self) -> list[str]:
        """Every failure, with its kind."""
        return [f"{name}: {text}" for name, count in self.counts.items() for text in count.failed]

    def summary(self) -> str:
        """Return what happened, for people."""
        lines = [
            f"{name:<38} {count.answered:6} answered {len(count.failed):3} failed {count.resent:3} resent"
            for name, count in self.counts.items()
        ]
        lines.append(
            f"{'all':<38} {self.answered:6} answered {len(self.failed):3} failed {self.resent:3} resent"
        )
        lines.append(f"streams: told to reconnect {self.told} times, cut {len(self.cut)} times")
        return "\n".join([*lines, *sorted(set(self.failed))[:SHOWN], *self.cut[:SHOWN]])

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(
            {
                "counts": {name: vars(count) for name, count in self.counts.items()},
                "answered_by": self.answered_by,
                "told": self.told,
                "cut": self.cut,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "Tally":
        """Return the tally that a text holds."""
        read = json.loads(text)
        return cls(**{**read, "counts": {name: Count(**count) for name, count in read["counts"].items()}})


Connect = Callable[[], http.client.HTTPConnection]


class Clients:
    """All of them, sharing one tally."""

    def __init__(self, connect: Connect) -> None:
        """Connect in this way."""
        self._connect = connect
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.tally = Tally({kind.name: Count() for kind in KINDS})

    def run(self, until: Callable[[], object]) -> Tally:
        """Ask until a call returns."""
        threads = [threading.Thread(target=self._ask, args=(kind,)) for kind in KINDS]
        threads += [threading.Thread(target=self._listen) for _ in range(STREAMS)]
        for thread in threads:
            thread.start()
        until()
        self._stop.set()
        for thread in threads:
            thread.join()
        return self.tally

    def _ask(self, kind: Kind) -> None:
        count, kept = self.tally.counts[kind.name], None
        while not self._stop.wait(PAUSE):
            try:
                kept, who, resent = _once(self._connect, kept, kind)
            except BROKEN as error:
                kept = None
                with self._lock:
                    count.failed.append(repr(error))
                continue
            with self._lock:
                count.answered += 1
                count.resent += resent
                self.tally.answered_by[who] = self.tally.answered_by.get(who, 0) + 1
        if kept is not None:
            kept.close()

    def _listen(self) -> None:
        while not self._stop.wait(PAUSE):
            try:
                connection = self._connect()
                told = self._read(connection)
                connection.close()
            except BROKEN as error:
                with self._lock:
                    self.tally.cut.append(repr(error))
                continue
            with self._lock:
                self.tally.told += told
                if not told and not self._stop.is_set():
                    self.tally.cut.append("ended without a word")

    def _read(self, connection: http.client.HTTPConnection) -> bool:
        """Read a stream to its end; return whether it said that we should reconnect."""
        connection.request("GET", "/trial/stream", headers={"Accept": "text/event-stream"})
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise http.client.HTTPException(f"{answer.status}: {answer.read()[:200]!r}")
        told = False
        while not self._stop.is_set() and (line := answer.readline()):
            told = told or line == b"event: reconnect\n"
        return told


def _once(
    connect: Connect, kept: http.client.HTTPConnection | None, kind: Kind
) -> tuple[http.client.HTTPConnection | None, str, int]:
    """Ask once; return the connection to keep, who answered, and 1 if the request was sent twice.

    Only a read is sent again, and only when a kept connection was closed without a byte.
    """
    again = 0
    if kept is not None and kept.sock is not None:
        try:
            return kept, _asked(kept, kind), 0
        except CLOSED:
            if kind.method != "GET":
                raise
            again = 1
    fresh = connect()
    try:
        who = _asked(fresh, kind)
    except BROKEN:
        fresh.close()
        raise
    if not kind.kept:
        fresh.close()
    return (fresh if kind.kept else None), who, again


def _asked(connection: http.client.HTTPConnection, kind: Kind) -> str:
    """Ask once; return who answered. Raises one of BROKEN for any other answer than the right one."""
    body = json.dumps(BODY) if kind.method == "POST" else None
    connection.request(kind.method, kind.path, body, {"Content-Type": "application/json"} if body else {})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != http.client.OK:
        raise http.client.HTTPException(f"{answer.status}: {text[:200]!r}")
    read = json.loads(text)
    if read.get("sent") != (BODY if body else None):
        raise http.client.HTTPException(f"not what was sent: {text[:200]!r}")
    return f"{read['name']} {read['version']}"


class _Named(http.client.HTTPSConnection):
    """A connection to an address that asks for a name."""

    def __init__(self, address: str, name: str, context: ssl.SSLContext) -> None:
        super().__init__(name, PORT, timeout=LONGEST, context=context)
        self._create_connection = lambda _, *rest: socket.create_connection((address, PORT), *rest)


def main(address: str, name: str) -> None:
    """Ask until standard input ends."""
    # The certificate is self-signed: the one that is there now is the one to be believed.
    context = ssl.create_default_context(cadata=ssl.get_server_certificate((address, PORT)))
    clients = Clients(lambda: _Named(address, name, context))
    print(clients.run(sys.stdin.read).to_json())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
