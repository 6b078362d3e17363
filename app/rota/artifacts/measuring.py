"""What an archive is: its names, its size, its chunks."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from blake3 import blake3

from rota.artifacts.chunking import Chunk, cut, size_of


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A file: its BLAKE3 and SHA-256 in hex, and its chunks in order."""

    hash: str
    sha256: str
    chunks: list[Chunk]

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return size_of(self.chunks)


def measure(path: Path) -> Measured:
    """Read a file once, in a memory that does not grow with it, and return what it is."""
    whole, second, chunks = blake3(), sha256(), list[Chunk]()
    with path.open("rb", buffering=0) as file:
        for chunk, data in cut(file):
            whole.update(data)
            second.update(data)
            chunks.append(chunk)
    return Measured(hash=whole.hexdigest(), sha256=second.hexdigest(), chunks=chunks)
