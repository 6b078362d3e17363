"""Artifacts on a disk: each is whole and verified before anybody sees it, and never changes after."""

import contextlib
import os
import re
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from blake3 import blake3

from rota.artifacts.chunking import Chunk, cut, read, written
from rota.errors import InputError, MalformedError
from rota.tlog.disk import make_directories, sync_directory

PART = 1024 * 1024  # bytes that are looked at together
CHUNKS = ".chunks"
PARTIAL = "partial"

_HASH = re.compile(r"[0-9a-f]{64}")


def checked_hash(artifact: str) -> str:
    """Return an artifact's name. Raises InputError for what is none: nothing else comes near a path."""
    if not _HASH.fullmatch(artifact):
        raise InputError(f"{artifact[:80]!r} names no artifact.", "Write its BLAKE3, 64 hexadecimal digits.")
    return artifact


class ArtifactStore:
    """One directory. Many processes of one host may use it at once; every method may block."""

    def __init__(self, directory: Path) -> None:
        """Keep artifacts in this directory, which is made when it is first written to."""
        self.directory = directory

    def path(self, artifact: str) -> Path:
        """Return where an artifact lies, or would lie."""
        return self.directory / checked_hash(artifact)[:2] / artifact

    def partial(self, artifact: str) -> Path:
        """Return where an artifact lies until it is whole; the directory is made."""
        directory = self.directory / PARTIAL
        make_directories(directory)
        return directory / checked_hash(artifact)

    def holds(self, artifact: str) -> bool:
        """Tell whether an artifact is here."""
        return self.path(artifact).exists()

    def all(self) -> Iterator[str]:
        """Iterate over the names of all that are here."""
        for path in sorted(self.directory.glob("[0-9a-f][0-9a-f]/*")):
            if _HASH.fullmatch(path.name):
                yield path.name

    def publish(self, whole: Path, artifact: str, chunks: list[Chunk]) -> Path:
        """Make a verified file visible under its name, durably. The file is moved."""
        path = self.path(artifact)
        make_directories(path.parent)
        os.chmod(whole, 0o440)  # noqa: PTH101 - the descriptor's owner, not a link
        _sync(whole)
        listed = path.with_name(path.name + CHUNKS)
        draft = listed.with_name(f".{listed.name}.{os.getpid()}.{time.monotonic_ns()}")
        draft.write_bytes(written(chunks))
        draft.rename(listed)
        whole.rename(path)
        sync_directory(path.parent)
        return path

    def chunks(self, artifact: str) -> list[Chunk]:
        """Return the chunks of an artifact that is here; they are listed anew where the list was lost."""
        path = self.path(artifact)
        listed = path.with_name(path.name + CHUNKS)
        with contextlib.suppress(FileNotFoundError, MalformedError):
            return read(listed.read_bytes())
        with path.open("rb") as file:
            return [chunk for chunk, _ in cut(file)]

    def find(self, wanted: Collection[bytes]) -> dict[bytes, tuple[Path, int]]:
        """Return where chunks of these hashes lie in artifacts that are here: path and offset."""
        missing, found = set(wanted), dict[bytes, tuple[Path, int]]()
        for listed in sorted(self.directory.glob("[0-9a-f][0-9a-f]/*" + CHUNKS)):
            if not missing:
                break
            path, offset = listed.with_suffix(""), 0
            with contextlib.suppress(OSError, MalformedError):
                for chunk in read(listed.read_bytes()):
                    if chunk.hash in missing:
                        found[chunk.hash] = path, offset
                        missing.discard(chunk.hash)
                    offset += chunk.size
        return found

    def size(self) -> int:
        """Return the bytes that all artifacts take."""
        return sum(path.stat().st_size for path in self.directory.glob("[0-9a-f][0-9a-f]/*"))

    def is_whole(self, artifact: str) -> bool:
        """Read an artifact anew, and tell whether it is still what its name says."""
        hasher = blake3()
        with self.path(artifact).open("rb") as file:
            while part := file.read(PART):
                hasher.update(part)
        return hasher.hexdigest() == artifact

    def remove(self, artifact: str) -> None:
        """Remove an artifact; whoever is reading it reads on."""
        path = self.path(artifact)
        path.unlink(missing_ok=True)
        path.with_name(path.name + CHUNKS).unlink(missing_ok=True)

    def sweep(self, older: float) -> int:
        """Remove what was begun and not gone on with for so many seconds; return how many files."""
        swept = 0
        for path in (self.directory / PARTIAL).glob("*"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > older:
                    path.unlink()
                    swept += 1
        return swept


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
