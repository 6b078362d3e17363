"""From the record files to what is served: reads on, reckons anew, compares, and writes tiles.

It blocks; it runs in a thread of the process that leads the checkpointer.
"""

import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rota.errors import DamagedError, TlogError
from rota.tlog import segments
from rota.tlog.disk import LocalDisk
from rota.tlog.frames import START, Chain, Position
from rota.tlog.merkle import EMPTY_ROOT
from rota.tlog.publication import Publication
from rota.tlog.records import Records
from rota.tlog.signing import Signed, SignedFile
from rota.tlog.tree import Tree

if TYPE_CHECKING:
    from rota.tlog.tiles import Tile

KEPT = 60.0  # seconds that partial files stay after a full one took their place


class Exporter:
    """Follows one log. `size`, `root` and `position` are those up to which everything is written."""

    def __init__(self, directory: Path, generation: int) -> None:
        """Export the log in this directory, in the name of this generation of the hub."""
        self._disk = LocalDisk(directory)
        self._records = Records(self._disk, SignedFile(self._disk).size, generation)
        self.publication = Publication(directory)
        self._tree = Tree()
        self._chain = Chain(START, EMPTY_ROOT)
        self._filled: deque[tuple[float, Tile]] = deque()
        self._written = -1  # the size whose partial files are written

    @property
    def size(self) -> int:
        """The size of the tree as far as it was read."""
        return self._tree.size

    @property
    def position(self) -> Position:
        """The end of what was read."""
        return self._chain.position

    def root(self) -> bytes:
        """Return the root of the tree as far as it was read."""
        return self._tree.root()

    def begin(self, signed: Signed) -> None:
        """Go on from the tree that was signed last. Raises DamagedError, OSError."""
        size, root, position = signed.tree()
        tail = self._records.settle()
        if tail.position.size < size:
            raise DamagedError(
                f"the tlog has {tail.position.size} entries, and {size} are signed: it is an older copy. "
                "Nothing is signed: put back a copy that has them all"
            )
        try:
            tree = Tree.load(size, self.publication.read)
        except (OSError, TlogError):
            tree = Tree()
        if tree.size == size and tree.root() == root:
            self._tree, self._chain, self._written = tree, Chain(position, root), size
        else:
            self._rebuild(tail.position, size, root)

    def catch_up(self) -> None:
        """Write the tiles of all that was appended. Raises TlogError, OSError."""
        if segments.look(self._disk).position != self.position:
            tail = self._records.settle()
            deque(self._read_to(tail.position), maxlen=0)
            if self._tree.root() != tail.frontier.root():
                raise DamagedError(
                    "the root that the writers have is not that of the entries: nothing is signed"
                )
        if self._written != self.size:
            for tile, data in self._tree.partial():
                self.publication.write(tile, data)
            self.publication.sync()
            self._written = self.size

    def tidy(self) -> None:
        """Remove partial files that full ones have long replaced."""
        while self._filled and time.monotonic() - self._filled[0][0] > KEPT:
            self.publication.drop_partials(self._filled.popleft()[1])

    def _rebuild(self, end: Position, size: int, root: bytes) -> None:
        """Read from the first entry to the tree that was signed, which must have this root."""
        for tree in self._read_to(end):
            if tree.size >= size:
                break
        if self._tree.size != size or self._tree.root() != root:
            raise DamagedError(
                f"the tlog's first {size} entries are not those that were signed: nothing is signed. "
                "Look with `rota tlog fsck`, and put back the copy that has them"
            )

    def _read_to(self, end: Position) -> Iterator[Tree]:
        """Read frames up to a position, and write the tiles that they fill; yield the tree after each."""
        for _, frame in segments.read_on(self._disk, self._chain, end):
            filled = [each for entry in frame.entries for each in self._tree.add(entry)]
            if self._tree.root() != frame.root:
                raise DamagedError(
                    f"the entries up to {self._tree.size} are not those that were appended: nothing is signed"
                )
            for tile, data in filled:
                self.publication.write(tile, data)
                self._filled.append((time.monotonic(), tile))
            yield self._tree
