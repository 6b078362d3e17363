"""What is served: tiles and bundles that never change, and the checkpoint, which is replaced whole."""

import contextlib
import os
import secrets
from pathlib import Path

from rota.errors import DamagedError, MalformedError
from rota.tlog.checkpoint import parse_checkpoint
from rota.tlog.disk import make_directories, sync_directory
from rota.tlog.notes import parse_note
from rota.tlog.tiles import Tile

DIRECTORY = "pub"
CHECKPOINT = "checkpoint"
_FIXED = 0o400


class Publication:
    """The directory `pub`. Who leads the checkpointer writes; everyone reads. Methods raise OSError."""

    def __init__(self, log: Path) -> None:
        """Publish below this log's directory."""
        self._root = log / DIRECTORY
        self._dirty: set[Path] = set()

    def read(self, tile: Tile) -> bytes:
        """Return a file as it is stored; a partial one that is gone comes from the full one in its place.

        Then the bytes of a bundle are those of the full one, to be cut by who knows the count.
        """
        try:
            return (self._root / tile.path).read_bytes()
        except FileNotFoundError:
            if tile == tile.full:
                raise
            return self._cut(tile, (self._root / tile.full.path).read_bytes())

    def checkpoint(self) -> bytes | None:
        """Return the published checkpoint, None before the first."""
        try:
            return (self._root / CHECKPOINT).read_bytes()
        except FileNotFoundError:
            return None

    def size(self) -> int:
        """Return how many entries the published checkpoint has, 0 where none can be read."""
        data = self.checkpoint()
        try:
            return parse_checkpoint(parse_note(data).text).size if data else 0
        except MalformedError:
            return 0

    def published_at(self) -> float:
        """Return when the checkpoint was published, in seconds since 1970 by the file server's clock."""
        return (self._root / CHECKPOINT).stat().st_mtime

    def write(self, tile: Tile, data: bytes) -> None:
        """Write a file, once and for ever. Raises DamagedError where other bytes stand there already."""
        path = self._root / tile.path
        if path.exists():
            if path.read_bytes() != data:
                raise DamagedError(
                    f"{path} is published, and not what the records say it must be: "
                    "nothing is signed. Look with `rota tlog fsck`"
                )
            return
        make_directories(path.parent)
        self._put(path, data, _FIXED)
        self._dirty.add(path.parent)

    def sync(self) -> None:
        """Make the names of all that was written durable."""
        for directory in self._dirty:
            sync_directory(directory)
        self._dirty.clear()

    def publish(self, checkpoint: bytes) -> None:
        """Replace the checkpoint, durably."""
        make_directories(self._root)
        self._put(self._root / CHECKPOINT, checkpoint, 0o600)
        sync_directory(self._root)

    def drop_partials(self, tile: Tile) -> None:
        """Remove the partial files of a place whose full file is published."""
        directory = (self._root / tile._replace(width=1).path).parent
        if (self._root / tile.full.path).exists() and directory.is_dir():
            for partial in directory.iterdir():
                partial.unlink()
            directory.rmdir()

    def _put(self, path: Path, data: bytes, mode: int) -> None:
        draft = path.parent / f".{secrets.token_hex(8)}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
                file.write(data)
                file.flush()
                os.fchmod(descriptor, mode)
                os.fsync(descriptor)
            draft.rename(path)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise

    @staticmethod
    def _cut(tile: Tile, data: bytes) -> bytes:
        if tile.level is not None:
            return data[: tile.width * 32]
        at = 0
        for _ in range(tile.width):
            at += 2 + int.from_bytes(data[at : at + 2], "big")
        return data[:at]
