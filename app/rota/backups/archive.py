"""The backup file: a compressed tar whose first member says what the others must be.

manifest.json    format, names, sizes and BLAKE3 of every other member
database/…       the copy of the database
keys/…           key files and secrets
settings.json    the settings in force, without secrets
"""

import io
import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import zstandard
from blake3 import blake3

from rota.errors import BackupError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

FORMAT = 1
MANIFEST = "manifest.json"
CHUNK = 1 << 20
PACKED = 1 << 12  # bytes to unpack at a time: few, for they may become many


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file in a backup."""

    path: str
    size: int
    blake3: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a backup says of itself."""

    format: int
    name: str
    version: str
    schema: int
    database: str
    members: list[Member]


class _Form(msgspec.Struct, frozen=True):
    """The one field that manifests of every format have."""

    format: int


def write_archive(
    target: Path, manifest: Mapping[str, Any], files: Mapping[str, Path | bytes]
) -> tuple[int, str]:
    """Write and sync a backup; return its size in bytes and its BLAKE3."""
    members = [_describe(path, content) for path, content in sorted(files.items())]
    head = msgspec.json.format(
        msgspec.json.encode(Manifest(format=FORMAT, members=members, **manifest)), indent=1
    )
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        with (
            zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(
                out, closefd=False
            ) as packer,
            tarfile.open(fileobj=packer, mode="w|") as tar,
        ):
            _add(tar, MANIFEST, head)
            for path, content in sorted(files.items()):
                _add(tar, path, content)
        out.flush()
        os.fsync(out.fileno())
    return target.stat().st_size, file_digest(target)


def read_archive(source: Path) -> Iterator[tuple[Manifest, Member, Path]]:
    """Yield each member, checked against the manifest, as a file that lives until the next one.

    Raises BackupError where anything differs, is missing, or is too much.
    """
    try:
        with source.open("rb") as file, io.BufferedReader(_Frame(file), CHUNK) as whole:
            with tarfile.open(fileobj=whole, mode="r|") as tar:
                yield from _members(source, tar)
            _finish(whole)
    except FileNotFoundError:
        raise BackupError(f"{source} is not there: `rota backup list` shows which are") from None
    except (tarfile.TarError, zstandard.ZstdError, msgspec.MsgspecError, EOFError) as error:
        raise BackupError(f"{source} is damaged: {error}") from error
    except OSError as error:
        raise BackupError(f"{source} cannot be read: {error.strerror or error}") from error


class _Frame(io.RawIOBase):
    """Unpacks a file that must be one compressed frame, to its end and no further."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._unpacker = zstandard.ZstdDecompressor().decompressobj()
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "Buffer") -> int:
        """Fill the buffer as far as it goes; return how far. Raises EOFError."""
        while not self._ready and not self._unpacker.eof:
            packed = self._file.read(PACKED)
            if not packed:
                raise EOFError("its end is missing")
            self._ready = memoryview(self._unpacker.decompress(packed))
        if self._unpacker.eof and (self._unpacker.unused_data or self._file.read(1)):
            raise EOFError("it goes on after its end")
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._ready))
        target[:count], self._ready = self._ready[:count], self._ready[count:]
        return count


def _finish(whole: BinaryIO) -> None:
    """Read what follows the last member, to the end, where the checksum stands. Raises EOFError."""
    while padding := whole.read(CHUNK):
        if padding.strip(b"\0"):
            raise EOFError("it goes on after its end")


def file_digest(path: Path) -> str:
    """Return a file's BLAKE3, in hex."""
    hasher = blake3()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            hasher.update(chunk)
    return hasher.hexdigest()


def _members(source: Path, tar: tarfile.TarFile) -> Iterator[tuple[Manifest, Member, Path]]:
    first = tar.next()
    if first is None or first.name != MANIFEST:
        raise BackupError(f"{source} does not begin with a manifest: it is no backup of this program")
    head = _content(tar, first).read()
    form = msgspec.json.decode(head, type=_Form).format
    if form != FORMAT:
        raise BackupError(f"{source} has format {form}, and this program reads {FORMAT}: use a newer one")
    manifest = msgspec.json.decode(head, type=Manifest)
    for path in (member.path for member in manifest.members):
        if path.startswith("/") or not {"..", "."}.isdisjoint(path.split("/")):
            raise BackupError(f"{source} names {path}, which is not a path inside a backup")
    expected = {member.path: member for member in manifest.members}
    while (entry := tar.next()) is not None:
        member = expected.pop(entry.name, None)
        if member is None or not entry.isfile():
            raise BackupError(f"{source} holds {entry.name}, which its manifest does not name as a file")
        with tempfile.TemporaryDirectory(prefix="rota-backup-") as scratch:
            copy = Path(scratch) / Path(entry.name).name
            with copy.open("wb") as out, _content(tar, entry) as content:
                while chunk := content.read(CHUNK):
                    out.write(chunk)
            if copy.stat().st_size != member.size or file_digest(copy) != member.blake3:
                raise BackupError(
                    f"{source}: {entry.name} is not what the manifest says: the backup is damaged"
                )
            yield manifest, member, copy
    if expected:
        raise BackupError(f"{source} lacks {', '.join(sorted(expected))}: the backup is damaged")


def _content(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> Any:
    content = tar.extractfile(entry)
    if content is None:
        raise BackupError(f"{entry.name} in the backup is not a file")
    return content


def _describe(path: str, content: Path | bytes) -> Member:
    if isinstance(content, Path):
        return Member(path, content.stat().st_size, file_digest(content))
    return Member(path, len(content), blake3(content).hexdigest())


def _add(tar: tarfile.TarFile, path: str, content: Path | bytes) -> None:
    info = tarfile.TarInfo(path)
    info.mode = 0o600
    if isinstance(content, bytes):
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
        return
    info.size = content.stat().st_size
    with content.open("rb") as file:
        tar.addfile(info, file)
