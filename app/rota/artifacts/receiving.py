"""Takes what somebody pushes, on the primary: each step may be repeated, and every method may block."""

from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from rota.artifacts.assembling import Assembly, Span
from rota.artifacts.chunking import Chunk, read, size_of, written
from rota.artifacts.store import CHUNKS, ArtifactStore
from rota.errors import ConflictError, InputError, MalformedError

MOST = 8 << 30  # bytes of a source


@dataclass(frozen=True)
class Wanted:
    """What is still to be sent; nothing where the artifact is complete."""

    missing: tuple[Span, ...]
    complete: bool


class Receiving:
    """One artifact on its way in. The list of its chunks lies beside it until it is whole."""

    def __init__(self, store: ArtifactStore, artifact: str) -> None:
        """Take this artifact into this store."""
        self._store = store
        self._artifact = artifact
        self._list = store.partial(artifact).with_suffix(CHUNKS)

    def offer(self, data: bytes) -> Wanted:
        """Take a list of chunks, and return which bytes to send.

        Raises InputError, ConflictError where there is no room, and BusyError.
        """
        if self._store.holds(self._artifact):
            return Wanted((), complete=True)
        try:
            chunks = read(data)
        except MalformedError as error:
            raise InputError(f"The body is not understood: {error}.", "Send the list of chunks.") from error
        if not 0 < size_of(chunks) <= MOST:
            raise InputError(f"A source has between 1 and {MOST} bytes.", "Ignore what need not be sent.")
        with Assembly(self._store, self._artifact) as assembly:
            missing = assembly.begin(chunks)
            if missing:
                self._list.write_bytes(written(chunks))
                return Wanted(tuple(missing), complete=False)
            self._done(assembly, chunks)
        return Wanted((), complete=True)

    def take(self, start: int) -> "Arrival":
        """Begin to take bytes from this offset on. Raises ConflictError, BusyError."""
        try:
            chunks = read(self._list.read_bytes())
        except FileNotFoundError as error:
            raise ConflictError("Nothing was said of this source yet.", "Send its list first.") from error
        return Arrival(self, Assembly(self._store, self._artifact), chunks, start)

    def _done(self, assembly: Assembly, chunks: list[Chunk], digest: bytes | None = None) -> Path:
        path = assembly.finish(chunks, digest)
        self._list.unlink(missing_ok=True)
        return path


class Arrival:
    """Bytes that come one after the other."""

    def __init__(self, receiving: Receiving, assembly: Assembly, chunks: list[Chunk], start: int) -> None:
        """Write them from `start` on."""
        self._receiving, self._assembly, self._chunks = receiving, assembly, chunks
        self._at, self._size, self._fresh = start, size_of(chunks), start == 0
        self._hasher = blake3()
        assembly.__enter__()

    def write(self, pieces: list[bytes]) -> None:
        """Write what has come. Raises InputError beyond the end."""
        for data in pieces:
            if self._at + len(data) > self._size:
                raise InputError(f"The source ends at byte {self._size}.", "Send what was asked for.")
            self._assembly.write(self._at, data)
            if self._fresh:
                self._hasher.update(data)
            self._at += len(data)

    def end(self) -> bool:
        """Tell whether that was all of it; what was seen byte for byte is verified and kept at once."""
        if not (self._fresh and self._at == self._size):
            return False
        self._receiving._done(self._assembly, self._chunks, self._hasher.digest())  # noqa: SLF001 - its own
        return True

    def close(self) -> None:
        """Let go."""
        self._assembly.__exit__(None, None, None)
