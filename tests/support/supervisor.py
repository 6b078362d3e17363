"""systemd's side of the readiness protocol: a datagram socket that keeps what it is told."""

import array
import contextlib
import socket
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class Told:
    """One message: the states in it, and the pid of its sender."""

    states: list[str]
    pid: int


class Supervisor:
    """Listens at a path for NOTIFY_SOCKET."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(str(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def next(self, within: float = 20.0) -> Told:
        """Return the next message. Raises TimeoutError."""
        self._socket.settimeout(max(within, 0.001))
        data, ancillary, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(_CREDENTIALS.size))
        pid, _, _ = _CREDENTIALS.unpack(array.array("i", ancillary[0][2]).tobytes())
        return Told(data.decode().split("\n"), pid)

    def until(self, state: str, within: float = 20.0) -> list[Told]:
        """Return every message up to the one with this state. Raises TimeoutError."""
        end = time.monotonic() + within
        told = [self.next(end - time.monotonic())]
        while state not in told[-1].states:
            told.append(self.next(end - time.monotonic()))
        return told

    def rest(self) -> list[Told]:
        """Return every message that has come already."""
        told = []
        with contextlib.suppress(TimeoutError):
            while True:
                told.append(self.next(within=0))
        return told
