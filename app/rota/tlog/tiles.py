"""Tiles (c2sp.org/tlog-tiles): how a tree is cut into files, and what they are called. No I/O."""

import re
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from rota.errors import MalformedError
from rota.tlog.strict import HASH_SIZE

WIDTH = 256  # hashes of a full tile
HEIGHT = 8  # levels of the tree in one level of tiles
TOP_LEVEL = 63
LONGEST_ENTRY = 65_535  # bytes
ENTRIES = "entries"

_LENGTH = Struct(">H")
_PATH = re.compile(
    r"tile/(?P<level>entries|[1-9]?[0-9])/(?P<number>(?:x[0-9]{3}/){0,5}[0-9]{3})(?:\.p/(?P<width>[1-9][0-9]{0,2}))?",
    re.ASCII,
)


class Tile(NamedTuple):
    """One file: `level` None is a bundle of entries; `width` WIDTH is a full one."""

    level: int | None
    number: int
    width: int = WIDTH

    @property
    def full(self) -> "Tile":
        """The full one in its place."""
        return self._replace(width=WIDTH)

    @property
    def path(self) -> str:
        """Where it is served, below the log's prefix."""
        digits = str(self.number)
        digits = digits.zfill(-(-len(digits) // 3) * 3)
        groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
        name = "/".join([*(f"x{group}" for group in groups[:-1]), groups[-1]])
        level = ENTRIES if self.level is None else self.level
        return f"tile/{level}/{name}" + (f".p/{self.width}" if self.width < WIDTH else "")


def parse_path(path: str) -> Tile:
    """Read a tile's path. Raises MalformedError for every spelling but one."""
    match = _PATH.fullmatch(path)
    if match is None:
        raise MalformedError(f"{path[:80]!r} is no tile's path")
    level = None if match["level"] == ENTRIES else int(match["level"])
    found = Tile(level, int(re.sub("[x/]", "", match["number"])), int(match["width"] or WIDTH))
    if found.path != path or (level or 0) > TOP_LEVEL:
        raise MalformedError(f"{path[:80]!r} is no tile's path")
    return found


def level_size(size: int, level: int) -> int:
    """Return how many hashes a tree has at one level of tiles."""
    return size >> (HEIGHT * level)


def tiles_of(size: int, since: int = 0) -> Iterator[Tile]:
    """Yield what a tree of `size` entries needs beyond the full files of one of `since`.

    The full ones of each level come first and its partial one last; bundles
    come before hashes.
    """
    yield from _level_tiles(None, size, since)
    level = 0
    while level_size(size, level):
        yield from _level_tiles(level, level_size(size, level), level_size(since, level))
        level += 1


def _level_tiles(level: int | None, count: int, since: int) -> Iterator[Tile]:
    yield from (Tile(level, number) for number in range(since // WIDTH, count // WIDTH))
    if count % WIDTH:
        yield Tile(level, count // WIDTH, count % WIDTH)


def implied(tile: Tile, size: int) -> bool:
    """Tell whether a tree of this size has the tile, or had it on its way there."""
    count = level_size(size, tile.level or 0)
    return tile.number * WIDTH + tile.width <= count


def holding(level: int, index: int, size: int) -> tuple[Tile, int]:
    """Return the tile of a tree that holds the hash (level of tiles, index), and its place in it."""
    count = level_size(size, level)
    number = index // WIDTH
    return Tile(level, number, min(WIDTH, count - number * WIDTH)), index % WIDTH


def bundle(entries: Iterable[bytes]) -> bytes:
    """Return entries as a bundle holds them: each after its length. Raises MalformedError for a long one."""
    parts = []
    for entry in entries:
        if len(entry) > LONGEST_ENTRY:
            raise MalformedError(f"an entry has at most {LONGEST_ENTRY} bytes, and this one {len(entry)}")
        parts += [_LENGTH.pack(len(entry)), entry]
    return b"".join(parts)


def entries_of(data: bytes, count: int) -> list[bytes]:
    """Return exactly this many entries of a bundle. Raises MalformedError."""
    found, at = [], 0
    while at < len(data):
        if at + _LENGTH.size > len(data):
            raise MalformedError("a bundle ends within a length")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length > len(data):
            raise MalformedError("a bundle ends within an entry")
        found.append(data[at : at + length])
        at += length
    if len(found) != count:
        raise MalformedError(f"a bundle of {len(found)} entries where {count} should be")
    return found


def hashes_of(data: bytes, count: int) -> list[bytes]:
    """Return exactly this many hashes of a tile. Raises MalformedError."""
    if len(data) != count * HASH_SIZE:
        raise MalformedError(f"a tile of {len(data)} bytes where {count} hashes should be")
    return [data[at : at + HASH_SIZE] for at in range(0, len(data), HASH_SIZE)]
