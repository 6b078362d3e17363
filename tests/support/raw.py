"""HTTP spoken byte by byte, so that a test decides what is sent and sees what comes back."""

import contextlib
import http.client
import socket
from dataclasses import dataclass
from types import TracebackType
from typing import Self

TIMEOUT = 10.0


@dataclass(frozen=True)
class Answer:
    """One answer: header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


class Connection:
    """One connection to a process on loopback, which asks by the name of `host`."""

    host = "hub.example"

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send these bytes and no others."""
        self._socket.sendall(data)

    def ask(self, method: str, path: str, *headers: str) -> Answer:
        """Send a request with a Host and these header lines; return the answer."""
        lines = (f"{method} {path} HTTP/1.1", f"Host: {self.host}", *headers)
        self.send("".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1"))
        return self.answer(method)

    def answer(self, method: str = "GET") -> Answer:
        """Read one answer."""
        response = http.client.HTTPResponse(self._socket, method=method)
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read())

    def raw(self, mark: bytes, wanted: int) -> bytes:
        """Return what comes, until this mark has come this often and its line has ended."""
        found = b""
        while found.count(mark) < wanted or b"\r\n" not in found[found.rindex(mark) :]:
            data = self._socket.recv(65536)
            assert data, f"closed after {found!r}"
            found += data
        return found

    def closed(self, within: float = TIMEOUT) -> bool:
        """Tell whether the other side ends the connection within this time, after whatever it still says."""
        self._socket.settimeout(within)
        with contextlib.suppress(ConnectionResetError):
            try:
                while self._socket.recv(65536):
                    pass
            except TimeoutError:
                return False
        return True


def ask(port: int, method: str, path: str, *headers: str) -> Answer:
    """Send one request on a connection of its own; return the answer."""
    with Connection(port) as connection:
        return connection.ask(method, path, *headers)


def status(port: int, data: bytes) -> int:
    """Send bytes on a connection of their own; return the status of the answer."""
    with Connection(port) as connection:
        connection.send(data)
        return connection.answer().status


def exchange(port: int, data: bytes) -> tuple[int, bool]:
    """Send bytes on a connection of their own; return the status of the answer and whether it was closed."""
    with Connection(port) as connection:
        connection.send(data)
        try:
            status = connection.answer().status
        except (http.client.BadStatusLine, ConnectionResetError):
            status = 0
        return status, connection.closed(within=3.0)
