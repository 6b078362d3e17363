"""Puts an artifact together from what is here and what comes over the network.

What is unfinished stays behind, and is gone on with: a chunk that lies at its
place is found by its hash, so that nothing needs to be remembered.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from blake3 import blake3

from rota.artifacts.chunking import Chunk, size_of
from rota.artifacts.room import check_room
from rota.artifacts.store import PART, ArtifactStore
from rota.errors import BusyError, InputError


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of an artifact that are not here yet: from `start` up to `end`, without it."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """How many they are."""
        return self.end - self.start


class Assembly:
    """One artifact on its way into a store. Only one process at a time holds it; every method may block."""

    def __init__(self, store: ArtifactStore, artifact: str) -> None:
        """Put this artifact together for this store, once it is entered."""
        self._store = store
        self._artifact = artifact
        self._fd = -1
        self.path = store.partial(artifact)

    def __enter__(self) -> Self:
        """Hold the artifact. Raises BusyError where somebody else does."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if not _held(descriptor, self.path):
            os.close(descriptor)
            raise BusyError(f"the artifact {self._artifact} is being sent by somebody else just now")
        self._fd = descriptor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go; what is unfinished stays."""
        os.close(self._fd)
        self._fd = -1

    def begin(self, chunks: list[Chunk]) -> list[Span]:
        """Take what is here already; return what is missing, in order. Raises ConflictError without room."""
        size = size_of(chunks)
        here = os.fstat(self._fd).st_size
        lying = self._lying(chunks) if here else set[int]()
        wanted = {chunk.hash for number, chunk in enumerate(chunks) if number not in lying}
        check_room(self.path.parent, max(0, size - here), "this artifact")
        found = self._store.find(wanted)
        os.ftruncate(self._fd, size)
        missing, offset = list[Span](), 0
        for number, chunk in enumerate(chunks):
            end = offset + chunk.size
            if number not in lying and not self._copied(chunk, offset, found.get(chunk.hash)):
                if missing and missing[-1].end == offset:
                    missing[-1] = Span(missing[-1].start, end)
                else:
                    missing.append(Span(offset, end))
            offset = end
        return missing

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write what came from elsewhere at its place."""
        view = memoryview(data)
        while view:
            done = os.pwrite(self._fd, view, offset)
            view, offset = view[done:], offset + done

    def size(self) -> int:
        """Return the bytes that the file has, missing ones too."""
        return os.fstat(self._fd).st_size

    def finish(self, chunks: list[Chunk], digest: bytes | None = None) -> Path:
        """Verify the whole and make it visible; return where.

        `digest` is the BLAKE3 of the whole where the caller saw every byte as it was
        written. Raises InputError where it is not what its name says: then nothing
        of it is kept.
        """
        if digest is None:
            digest = self._digest()
        if digest.hex() != self._artifact or self.size() != size_of(chunks):
            self.path.unlink(missing_ok=True)
            raise InputError(
                f"What was sent is {digest.hex()[:16]}…, and not the artifact {self._artifact[:16]}….",
                "Send it again from the start: nothing of it was kept.",
            )
        return self._store.publish(self.path, self._artifact, chunks)

    def _lying(self, chunks: list[Chunk]) -> set[int]:
        """Return the numbers of the chunks that lie at their place already."""
        lying, offset = set[int](), 0
        for number, chunk in enumerate(chunks):
            data = os.pread(self._fd, chunk.size, offset)
            if len(data) == chunk.size and blake3(data).digest() == chunk.hash:
                lying.add(number)
            offset += chunk.size
        return lying

    def _copied(self, chunk: Chunk, offset: int, place: tuple[Path, int] | None) -> bool:
        """Copy a chunk from another artifact, unless that is not what its list says."""
        if place is None:
            return False
        path, start = place
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False  # removed meanwhile
        try:
            data = os.pread(descriptor, chunk.size, start)
        finally:
            os.close(descriptor)
        if blake3(data).digest() != chunk.hash:
            return False
        self.write(offset, data)
        return True

    def _digest(self) -> bytes:
        hasher, offset = blake3(), 0
        while part := os.pread(self._fd, PART, offset):
            hasher.update(part)
            offset += len(part)
        return hasher.digest()


def _held(descriptor: int, path: Path) -> bool:
    """Lock a file, unless somebody else has, or it was published or swept away meanwhile."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        there = path.stat(follow_symlinks=False)
    except (BlockingIOError, FileNotFoundError):
        return False
    ours = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
