"""The tree grown from the entries' own bytes, tile by tile, by other code than the writers'. No I/O.

What a checkpoint says is reckoned here from what the files hold, and compared
with what the writers said. One bit that changed in between shows.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256

from rota.errors import ProofError
from rota.tlog.merkle import EMPTY_ROOT
from rota.tlog.tiles import WIDTH, Tile, bundle, entries_of, hashes_of, level_size

# Gives the bytes of a file of a published log. Raises OSError or TlogError.
ReadTile = Callable[[Tile], bytes]


class Tree:
    """A tree that grows, and keeps only what its partial tiles hold."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.size = 0
        self._entries: list[bytes] = []
        self._levels: list[list[bytes]] = []

    @classmethod
    def load(cls, size: int, read: ReadTile) -> "Tree":
        """Return the tree of a published log of this size. Raises OSError or TlogError."""
        tree = cls()
        tree.size = size
        level = 0
        while count := level_size(size, level):
            if width := count % WIDTH:
                tree._levels.append(hashes_of(read(Tile(level, count // WIDTH, width)), width))
                if level == 0:
                    tree._entries = entries_of(read(Tile(None, count // WIDTH, width)), width)
                    if [_leaf(entry) for entry in tree._entries] != tree._levels[0]:
                        raise ProofError("the last entries of the published log do not have its hashes")
            else:
                tree._levels.append([])
            level += 1
        return tree

    def add(self, entry: bytes) -> Iterator[tuple[Tile, bytes]]:
        """Append an entry; yield each tile and bundle that it fills, and their bytes."""
        number = self.size // WIDTH
        self.size += 1
        self._entries.append(entry)
        if len(self._entries) == WIDTH:
            yield Tile(None, number), bundle(self._entries)
            self._entries = []
        grown, level = _leaf(entry), 0
        while True:
            if level == len(self._levels):
                self._levels.append([])
            hashes = self._levels[level]
            hashes.append(grown)
            if len(hashes) < WIDTH:
                return
            yield Tile(level, number), b"".join(hashes)
            grown, self._levels[level] = _halved(hashes), []
            number, level = number // WIDTH, level + 1

    def partial(self) -> Iterator[tuple[Tile, bytes]]:
        """Yield the partial tiles and the partial bundle of the tree as it stands, and their bytes."""
        if self._entries:
            yield Tile(None, self.size // WIDTH, len(self._entries)), bundle(self._entries)
        for level, hashes in enumerate(self._levels):
            if hashes:
                yield Tile(level, level_size(self.size, level) // WIDTH, len(hashes)), b"".join(hashes)

    def root(self) -> bytes:
        """Return the root of the tree as it stands."""
        parts = [part for hashes in reversed(self._levels) for part in _whole(hashes)]
        if not parts:
            return EMPTY_ROOT
        root = parts.pop()
        while parts:
            root = _parent(parts.pop() + root)
        return root


def _whole(hashes: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the roots of the complete subtrees that lie in a partial tile, the largest first."""
    at = 0
    for bit in reversed(range(len(hashes).bit_length())):
        if len(hashes) >> bit & 1:
            yield _halved(hashes[at : at + (1 << bit)])
            at += 1 << bit


def _halved(hashes: Sequence[bytes]) -> bytes:
    """Return the root over a power of two of hashes."""
    row = list(hashes)
    while len(row) > 1:
        row = [_parent(left + right) for left, right in zip(row[::2], row[1::2], strict=True)]
    return row[0]


def _leaf(entry: bytes) -> bytes:
    return sha256(b"\x00" + entry).digest()


def _parent(both: bytes) -> bytes:
    return sha256(b"\x01" + both).digest()


class TileHashes:
    """The hashes of a published tree, read from its tiles; each tile is checked against the root."""

    def __init__(self, size: int, root: bytes, read: ReadTile) -> None:
        """Read the tree of this size and root."""
        self._size = size
        self._root = root
        self._read = read
        self._tiles: dict[tuple[int, int], list[bytes]] = {}
        self._checked_edge = False

    def __call__(self, level: int, index: int) -> bytes:
        """Return the hash of the complete subtree (level, index). Raises ProofError, OSError."""
        tile_level, above = divmod(level, 8)
        first = index << above
        hashes = self.tile(tile_level, first // WIDTH)
        start = first % WIDTH
        part = hashes[start : start + (1 << above)]
        if len(part) != 1 << above:
            raise ProofError(f"a tree of {self._size} has no subtree {index} at level {level}")
        return _halved(part)

    def tile(self, level: int, number: int) -> list[bytes]:
        """Return a tile's hashes, checked up to the root. Raises ProofError, MalformedError, OSError."""
        found = self._tiles.get((level, number))
        if found is not None:
            return found
        count = level_size(self._size, level) - number * WIDTH
        if count <= 0:
            raise ProofError(f"a tree of {self._size} has no tile {number} at level {level}")
        if count < WIDTH or level_size(self._size, level + 1) <= number:
            self._check_edge()
            return self._tiles[level, number]
        hashes = hashes_of(self._read(Tile(level, number)), WIDTH)
        if self.tile(level + 1, number // WIDTH)[number % WIDTH] != _halved(hashes):
            raise ProofError(f"{Tile(level, number).path} does not match the tile above it")
        self._tiles[level, number] = hashes
        return hashes

    def _check_edge(self) -> None:
        """Read the last tile of each level, and check that they make up the root."""
        if self._checked_edge:
            return
        edge, level = Tree(), 0
        edge.size = self._size
        while count := level_size(self._size, level):
            width = count % WIDTH
            hashes = hashes_of(self._read(Tile(level, count // WIDTH, width)), width) if width else []
            edge._levels.append(hashes)  # noqa: SLF001 - a tree of the same module
            if width:
                self._tiles[level, count // WIDTH] = hashes
            level += 1
        if edge.root() != self._root:
            raise ProofError("the tiles of the tree's edge do not make up its root")
        self._checked_edge = True
