"""One client of a stream of server-sent events, which reads as a browser does."""

import contextlib
import http.client
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import msgspec


@dataclass(frozen=True)
class Heard:
    """One event, with the id that a browser would come back with."""

    name: str
    text: str
    id: str
    retry: int | None = None

    def json(self) -> Any:
        """Return the text, read as JSON."""
        return msgspec.json.decode(self.text)


class Stream:
    """A stream that is open, read in a thread."""

    def __init__(self, port: int, query: str, *headers: str) -> None:
        """Open it, with these header lines."""
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        lines = (
            f"GET /live?{query} HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Accept: text/event-stream",
            *headers,
        )
        self._socket.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        self._response = http.client.HTTPResponse(self._socket)
        self._response.begin()
        self.status = self._response.status
        self.headers = {name.lower(): value for name, value in self._response.getheaders()}
        self.id = ""  # the newest that came, also without an event
        self.beats = 0
        self._heard: queue.Queue[Heard | None] = queue.Queue()
        self._socket.settimeout(None)
        self._reader = threading.Thread(target=self._read, daemon=True)
        if self.status == 200:
            self._reader.start()

    @classmethod
    @contextmanager
    def of(cls, port: int, query: str, *headers: str) -> Iterator[Self]:
        """Give a stream that is closed at the end of the block."""
        stream = cls(port, query, *headers)
        try:
            yield stream
        finally:
            stream.close()

    def next(self, within: float = 10.0) -> Heard:
        """Return the next event."""
        heard = self._heard.get(timeout=within)
        assert heard is not None, "the stream has ended"
        return heard

    def named(self, name: str, within: float = 10.0) -> Heard:
        """Return the next event of this name, passing over others."""
        while (heard := self.next(within)).name != name:
            pass
        return heard

    def ended(self, within: float = 10.0) -> bool:
        """Tell whether the stream ends within this time, whatever comes before."""
        try:
            while self._heard.get(timeout=within) is not None:
                pass
        except queue.Empty:
            return False
        return True

    def close(self) -> None:
        """Leave."""
        with contextlib.suppress(OSError):  # the other side may have left before
            self._socket.shutdown(socket.SHUT_RDWR)
        self._response.close()
        self._socket.close()
        self._reader.join(timeout=5)

    def _read(self) -> None:
        fields: dict[str, str] = {}
        try:
            for raw in self._response:
                line = raw.decode().rstrip("\n")
                if line.startswith(":"):
                    self.beats += 1
                elif line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                    if name == "id":
                        self.id = value
                elif fields:
                    if "data" in fields:
                        retry = fields.get("retry")
                        self._heard.put(
                            Heard(fields["event"], fields["data"], self.id, int(retry) if retry else None)
                        )
                    fields = {}
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            pass
        self._heard.put(None)
