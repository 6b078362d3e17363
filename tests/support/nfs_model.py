"""A shared file system in this process: what NFSv4 promises, and nothing more.

Each host has a cache of each file, right when it opens or locks that file and
stale afterwards. What a host writes reaches the server when it syncs, locks or
closes. Locks end with a host's lease once another host wants them, and then
every call through the handle that held one fails. Names are cached too.
"""

import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LEASE = 15.0  # seconds


class KilledError(BaseException):
    """The process that made this call was killed at it."""


@dataclass
class File:
    """A file at the server."""

    data: bytearray = field(default_factory=bytearray)
    holder: "ModelHandle | None" = None


@dataclass
class Server:
    """The file server, and the time."""

    files: dict[str, File] = field(default_factory=dict)
    now: float = 0.0
    renewed: dict[str, float] = field(default_factory=dict)

    def alive(self, host: str) -> bool:
        """Tell whether a host's lease still stands."""
        return self.now - self.renewed.get(host, self.now) < LEASE


Dirty = tuple[int, bytes]


class Host:
    """One client, with its caches; also the `Disk` of the processes on it.

    `before` is called ahead of each call, with its name: a test lets other
    hosts act there, or ends this process.
    """

    def __init__(self, server: Server, name: str, *, locks_last: bool = True) -> None:
        """Mount the server; `locks_last=False` has only the first lock of each process reach the server."""
        self.server = server
        self.name = name
        self.locks_last = locks_last
        self.cut_off = False
        self.full = False
        self.before: Callable[[str], None] = lambda _: None
        self.handles: list[ModelHandle] = []
        self._names: dict[str, tuple[float, list[str]]] = {}

    def contact(self, call: str) -> None:
        """Note that a process makes a call, and that the host's lease is renewed by it."""
        self.before(call)
        if not self.cut_off:
            if not self.server.alive(self.name):
                for handle in self.handles:
                    handle.expire()
            self.server.renewed[self.name] = self.server.now

    def open(self, path: str, *, write: bool = False) -> "ModelHandle":
        """Open a file: its size and bytes are those that the server has now."""
        self.contact("open")
        if path not in self.server.files:
            if not write:
                raise FileNotFoundError(errno.ENOENT, "No such file", path)
            self.server.files[path] = File()
        handle = ModelHandle(self, path)
        self.handles.append(handle)
        return handle

    def names(self, directory: str) -> list[str]:
        """Return the names as this host last heard them: a minute old at most."""
        self.contact("names")
        known = self._names.get(directory)
        if known is None or self.server.now - known[0] >= 60:
            prefix = f"{directory}/"
            found = sorted(path.removeprefix(prefix) for path in self.server.files if path.startswith(prefix))
            known = self._names[directory] = (self.server.now, found)
        return known[1]

    def sync_directory(self, directory: str) -> None:  # noqa: ARG002 - the seam's signature
        """Do nothing: a name is at the server as soon as it is made."""
        self.contact("sync_directory")

    def kill(self) -> None:
        """End this host's process: the kernel writes out what it had, and gives its locks back."""
        for handle in list(self.handles):
            handle.end(flush=True)

    def crash(self) -> None:
        """End this host: what was not written out is gone, and its locks stay until the lease is over."""
        for handle in list(self.handles):
            handle.end(flush=False)
        self.cut_off = False
        self._names.clear()


class ModelHandle:
    """One open file on one host."""

    def __init__(self, host: Host, path: str) -> None:
        """Open it: the cache is right at this moment."""
        self._host = host
        self._file = host.server.files[path]
        self._cache = bytearray(self._file.data)
        self._dirty: list[Dirty] = []
        self._cuts: int | None = None
        self.lost = False
        self.locked = False
        self.ended = False

    def try_lock(self) -> bool:
        """Take the lock if it is free, or its holder's lease is over; then the cache is right again."""
        self._contact("try_lock")
        self._reach()
        holder = self._file.holder
        if holder is not None and holder is not self:
            if not holder.ended and self._host.server.alive(holder.host):
                return False
            holder.expire()
        self._file.holder, self.locked = self, True
        self._flush()
        self._cache = bytearray(self._file.data)
        return True

    @property
    def host(self) -> str:
        """The name of the host."""
        return self._host.name

    def size(self) -> int:
        """Return the size that the cache has."""
        self._contact("size")
        return len(self._cache)

    def read(self, offset: int, count: int, *, fresh: bool = False) -> bytes:
        """Read from the cache, or from the server."""
        self._contact("read")
        if fresh:
            self._reach()
            self._flush()
            self._cache = bytearray(self._file.data)
        return bytes(self._cache[offset : offset + count])

    def write(self, offset: int, data: bytes) -> None:
        """Write into the cache."""
        self._contact("write")
        _put(self._cache, offset, data)
        self._dirty.append((offset, data))

    def truncate(self, size: int) -> None:
        """Cut the file, at the server at once."""
        self._contact("truncate")
        self._reach()
        self._dirty = []
        del self._cache[size:]
        del self._file.data[size:]

    def sync(self) -> None:
        """Write the cache out. A full disk says so only now."""
        self._contact("sync")
        self._reach()
        if self._host.full and self._dirty:
            self._dirty = []  # and the pages look clean
            raise OSError(errno.ENOSPC, "No space left on device")
        self._flush()

    def close(self) -> None:
        """Write the cache out and give the lock back."""
        if self.ended:
            return
        lost = self.lost
        try:
            if self._dirty and not lost:
                self._contact("close")
        finally:
            self.end(flush=not self._host.cut_off)
        if lost and self._dirty:
            raise OSError(errno.EIO, "Input/output error")

    def expire(self) -> None:
        """Lose the lock without being told."""
        if self.locked:
            self.lost = True
            if self._file.holder is self:
                self._file.holder = None

    def end(self, *, flush: bool) -> None:
        """Let go, whatever the state; a host that is gone leaves its locks to its lease."""
        if flush and not self.lost:
            self._flush()
        self.ended = flush
        if flush and self._file.holder is self:
            self._file.holder = None
        if self in self._host.handles:
            self._host.handles.remove(self)

    def _contact(self, call: str) -> None:
        self._host.contact(call)
        if self.lost:
            raise OSError(errno.EIO, "Input/output error")

    def _reach(self) -> None:
        """Fail as a call to the server does that never comes through in this process's time."""
        if self._host.cut_off:
            raise OSError(errno.EIO, "Input/output error")

    def _flush(self) -> None:
        for offset, data in self._dirty:
            _put(self._file.data, offset, data)
        self._dirty = []


def _put(target: bytearray, offset: int, data: bytes) -> None:
    target.extend(bytes(max(0, offset - len(target))))
    target[offset : offset + len(data)] = data
