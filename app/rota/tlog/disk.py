"""The files below the log: a seam, so that a shared file system can be put in its place in tests."""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Protocol


class Handle(Protocol):
    """One open file. Every method raises OSError; `write` writes all of it or raises."""

    def try_lock(self) -> bool:
        """Take the exclusive lock of this very file, or return False at once. It ends with `close`."""

    def size(self) -> int:
        """Return the file's size in bytes."""

    def read(self, offset: int, count: int, *, fresh: bool = False) -> bytes:
        """Return what lies there, less at the file's end; `fresh` asks the file system and no cache."""

    def write(self, offset: int, data: bytes) -> None:
        """Write at an offset."""

    def truncate(self, size: int) -> None:
        """Cut the file."""

    def sync(self) -> None:
        """Make what was written durable."""

    def close(self) -> None:
        """Let go of the file and of its lock."""


class Disk(Protocol):
    """Opens files by their path below the log's directory."""

    def open(self, path: str, *, write: bool = False) -> Handle:
        """Open a file; with `write`, make it where it is missing. Raises OSError."""

    def names(self, directory: str) -> list[str]:
        """Return the sorted names in a directory, none where there is no such directory."""

    def sync_directory(self, directory: str) -> None:
        """Make the names in a directory durable."""


class LocalHandle:
    """A file of this machine, or of a file system that it mounts."""

    def __init__(self, descriptor: int) -> None:
        """Own this descriptor."""
        self._fd = descriptor

    def try_lock(self) -> bool:
        """Take the exclusive lock, or return False at once."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def size(self) -> int:
        """Return the file's size in bytes."""
        return os.fstat(self._fd).st_size

    def read(self, offset: int, count: int, *, fresh: bool = False) -> bytes:
        """Return what lies there; short only at the file's end."""
        if fresh:
            os.posix_fadvise(self._fd, offset, count, os.POSIX_FADV_DONTNEED)
        parts: list[bytes] = []
        while count:
            part = os.pread(self._fd, count, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            count -= len(part)
        return b"".join(parts) if len(parts) != 1 else parts[0]

    def write(self, offset: int, data: bytes) -> None:
        """Write all of it: a short write is real, on a disk that fills up."""
        rest = memoryview(data)
        while rest:
            done = os.pwrite(self._fd, rest, offset)
            offset += done
            rest = rest[done:]

    def truncate(self, size: int) -> None:
        """Cut the file."""
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """Make what was written durable."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Let go of the file. A file system may tell only now what went wrong."""
        os.close(self._fd)


class LocalDisk:
    """A directory, made where it is missing, for this user alone."""

    def __init__(self, root: Path) -> None:
        """Keep everything below this directory."""
        self.root = root

    def open(self, path: str, *, write: bool = False) -> LocalHandle:
        """Open a file; with `write`, make it and its directory where they are missing."""
        full = self.root / path
        if not write:
            return LocalHandle(os.open(full, os.O_RDONLY | os.O_CLOEXEC))
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            return LocalHandle(os.open(full, flags, 0o600))
        except FileNotFoundError:
            make_directories(full.parent)
            return LocalHandle(os.open(full, flags, 0o600))

    def names(self, directory: str) -> list[str]:
        """Return the sorted names in a directory."""
        try:
            return sorted(path.name for path in (self.root / directory).iterdir())
        except FileNotFoundError:
            return []

    def sync_directory(self, directory: str) -> None:
        """Make the names in a directory durable."""
        sync_directory(self.root / directory)


def make_directories(path: Path, mode: int = 0o700) -> None:
    """Make a directory and those above it, each one durable in its own."""
    if path.is_dir():
        return
    make_directories(path.parent, mode)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
