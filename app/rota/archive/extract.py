"""Unpacks an archive into an empty directory: regular files and directories, and links that stay inside.

Standard library only, and nothing of the rest of the program: rootd runs it as a child without rights, a
build in its sandbox. Paths are walked by descriptors and no link is ever followed; links are made last.
"""

import gzip
import os
import stat
import sys
import zlib
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO, cast

BLOCK = 512
LONGEST_PART, LONGEST_PATH, DEEPEST = 255, 4096, 64
LONGEST_HEADER = 64 * 1024  # of a pax header, in bytes
MOST_FILES = 400_000
PIECE = 1 << 20
REFUSED, FAILED = 65, 74  # exit codes: the archive is wrong; the disk is


class ArchiveError(ValueError):
    """An archive is not what may be unpacked; the message says why."""


@dataclass
class Bounds:
    """What an archive may hold at most: bytes of all files together, and how many of them."""

    bytes: int
    files: int = MOST_FILES


@dataclass(frozen=True)
class _Header:
    path: str
    kind: bytes
    size: int
    executable: bool
    target: str


@dataclass
class _Tree:
    """What was made so far, to see that nothing is made twice however its name is written."""

    directories: set[str] = field(default_factory=lambda: {""})
    names: set[str] = field(default_factory=set)
    links: list[tuple[str, str]] = field(default_factory=list)
    bytes: int = 0


def extract(archive: IO[bytes], directory: int, bounds: Bounds) -> None:
    """Unpack a tar archive, plain or gzip's, into an open, empty directory.

    Raises ArchiveError at the first thing that may not be, with what came before already there; OSError
    where the disk fails.
    """
    tree, extended = _Tree(), dict[str, str]()
    stream = _plain(archive)
    while (block := _exactly(stream, BLOCK)) != bytes(BLOCK):
        header = _header(block, extended)
        if header.kind == b"x":
            extended = _extended(_content(stream, header))
            continue
        extended = {}
        _take(stream, header, directory, tree, bounds)
    _ends(stream)
    for path, target in tree.links:
        _link(directory, path, target)


def _take(stream: IO[bytes], header: _Header, directory: int, tree: _Tree, bounds: Bounds) -> None:
    """Make what one header describes."""
    path = _path(header.path)
    _directories(directory, path if header.kind == b"5" else path.rpartition("/")[0], tree, bounds)
    if header.kind == b"5":
        if header.size:
            raise ArchiveError(f"{path!r} is a directory with content")
        return
    _claim(path, tree, bounds)
    if header.kind in (b"0", b"\0"):
        tree.bytes += header.size
        if tree.bytes > bounds.bytes:
            raise ArchiveError(f"its files have more than {bounds.bytes} bytes")
        _file(stream, header, directory, path)
    elif header.kind == b"2":
        tree.links.append((path, _target(path, header.target)))
    else:
        raise ArchiveError(f"{path!r} is neither a file, a directory nor a symbolic link")


def _claim(path: str, tree: _Tree, bounds: Bounds) -> None:
    """Take a name, once, however its letters are written."""
    folded = path.casefold()
    if folded in tree.names:
        raise ArchiveError(f"{path!r} stands there twice, or differs from another by case alone")
    if len(tree.names) >= bounds.files:
        raise ArchiveError(f"it holds more than {bounds.files} files")
    tree.names.add(folded)


def _path(text: str) -> str:
    """Return a path's plain form. It names something below, in printable signs."""
    path = text.removesuffix("/")
    parts = path.split("/")
    if not path or len(path.encode()) > LONGEST_PATH or len(parts) > DEEPEST:
        raise ArchiveError(f"the name {text[:80]!r} is empty, too long or too deep")
    for part in parts:
        if part in ("", ".", "..") or not part.isprintable() or len(part.encode()) > LONGEST_PART:
            raise ArchiveError(f"the name {text[:80]!r} may not be")
    return path


def _target(path: str, target: str) -> str:
    """Check that a link leads to something inside, through whatever other links there are.

    `..` may stand at the beginning alone: there it climbs from a real directory.
    """
    parts = target.split("/")
    climbs = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    if not target or target.startswith("/") or not target.isprintable() or len(target) > LONGEST_PATH:
        raise ArchiveError(f"{path!r} is a link to {target[:80]!r}, which may not be")
    if climbs > path.count("/") or ".." in parts[climbs:]:
        raise ArchiveError(f"{path!r} is a link that may lead outside")
    return target


def _opened(directory: int, parent: str, stack: ExitStack) -> int:
    """Open a directory below another, following no link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    for part in parent.split("/") if parent else ():
        directory = os.open(part, flags, dir_fd=directory)
        stack.callback(os.close, directory)
    return directory


def _directories(directory: int, path: str, tree: _Tree, bounds: Bounds) -> None:
    """Make a directory and those above it, as far as they are missing."""
    if path in tree.directories:
        return
    parent, _, name = path.rpartition("/")
    _directories(directory, parent, tree, bounds)
    _claim(path, tree, bounds)
    with ExitStack() as stack:
        os.mkdir(name, 0o755, dir_fd=_opened(directory, parent, stack))
    tree.directories.add(path)


def _file(stream: IO[bytes], header: _Header, directory: int, path: str) -> None:
    parent, _, name = path.rpartition("/")
    with ExitStack() as stack:
        above = _opened(directory, parent, stack)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o755 if header.executable else 0o644, dir_fd=above)
        with os.fdopen(descriptor, "wb") as file:
            left = header.size
            while left:
                piece = stream.read(min(left, PIECE))
                if not piece:
                    raise ArchiveError("it ends in the middle of a file")
                file.write(piece)
                left -= len(piece)
    _exactly(stream, -header.size % BLOCK)


def _link(directory: int, path: str, target: str) -> None:
    parent, _, name = path.rpartition("/")
    with ExitStack() as stack:
        os.symlink(target, name, dir_fd=_opened(directory, parent, stack))


def _header(block: bytes, extended: dict[str, str]) -> _Header:
    """Read a header of the formats ustar and pax."""
    total = sum(block[:148]) + sum(block[156:]) + 8 * ord(" ")
    if block[257:263] != b"ustar\0" or _octal(block[148:156]) != total:
        raise ArchiveError("it is no tar archive of the format pax, or it is damaged")
    name, prefix = _text(block[:100]), _text(block[345:500])
    path = extended.get("path", f"{prefix}/{name}" if prefix else name)
    size = extended.get("size")
    if size is not None and not (size.isascii() and size.isdigit() and len(size) < 20):  # noqa: PLR2004
        raise ArchiveError("a size is no number")
    return _Header(
        path,
        block[156:157],
        int(size) if size is not None else _octal(block[124:136]),
        bool(_octal(block[100:108]) & stat.S_IXUSR),
        extended.get("linkpath", _text(block[157:257])),
    )


def _extended(data: bytes) -> dict[str, str]:
    """Read the records of a pax header; those that we do not know may be there, but for sparse files."""
    found: dict[str, str] = {}
    while data:
        count, space, _ = data[:20].partition(b" ")
        length = int(count) if space and count.isdigit() else 0
        record = data[len(count) + 1 : length]
        name, equals, value = record.partition(b"=")
        if not equals or not record.endswith(b"\n") or name.startswith(b"GNU.sparse"):
            raise ArchiveError("a pax header is malformed, or describes a sparse file")
        try:
            found[name.decode()] = value[:-1].decode()
        except UnicodeDecodeError as error:
            raise ArchiveError("a name is no UTF-8") from error
        data = data[length:]
    return found


def _content(stream: IO[bytes], header: _Header) -> bytes:
    if header.size > LONGEST_HEADER:
        raise ArchiveError(f"a pax header is longer than {LONGEST_HEADER} bytes")
    return _exactly(stream, header.size + -header.size % BLOCK)[: header.size]


def _octal(data: bytes) -> int:
    digits = data.strip(b" \0")
    if len(digits) > 11 or not all(48 <= sign < 56 for sign in digits):  # noqa: PLR2004 - octal digits
        raise ArchiveError("a number in a header is not octal")
    return int(digits or b"0", 8)


def _text(data: bytes) -> str:
    try:
        return data.partition(b"\0")[0].decode("utf-8")
    except UnicodeDecodeError as error:
        raise ArchiveError("a name is no UTF-8") from error


def _exactly(stream: IO[bytes], count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise ArchiveError("it ends too early")
    return data


def _ends(stream: IO[bytes]) -> None:
    """See that nothing follows the end but the rest of the padding, which is short."""
    rest = stream.read(64 * BLOCK)
    if rest.strip(b"\0") or stream.read(1):
        raise ArchiveError("something follows its end")


class _Gzip(gzip.GzipFile):
    """Tells what is wrong with compressed data as everything else here does."""

    def read(self, size: int | None = -1) -> bytes:
        try:
            return super().read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ArchiveError(f"its compression is damaged: {error}") from error


def _plain(archive: IO[bytes]) -> IO[bytes]:
    magic = archive.read(2)
    archive.seek(-len(magic), os.SEEK_CUR)
    stream = _Gzip(fileobj=archive, mode="rb") if magic == b"\x1f\x8b" else archive
    return cast("IO[bytes]", stream)


def main() -> None:
    """Unpack standard input into the working directory: `python -m rota.archive.extract MOST_BYTES`."""
    os.umask(0o022)
    directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        extract(sys.stdin.buffer, directory, Bounds(int(sys.argv[1])))
    except ArchiveError as error:
        sys.stderr.write(str(error))
        raise SystemExit(REFUSED) from error
    except OSError as error:
        sys.stderr.write(error.strerror or "it cannot be read or written")
        raise SystemExit(FAILED) from error


if __name__ == "__main__":
    main()
