"""The published log, read: entries and their proofs, checked before they are given out. It blocks."""

from dataclasses import dataclass

from rota.errors import TlogError
from rota.tlog.checkpoint import Checkpoint, parse_checkpoint
from rota.tlog.merkle import inclusion_proof, leaf_hash, verify_inclusion
from rota.tlog.notes import parse_note
from rota.tlog.proof import Proof
from rota.tlog.publication import Publication
from rota.tlog.tiles import WIDTH, entries_of, holding
from rota.tlog.tree import TileHashes


class AbsentError(TlogError):
    """The published log does not hold this entry, or not yet."""


@dataclass(frozen=True)
class Proved:
    """An entry, and the proof that it is in the log."""

    index: int
    entry: bytes
    proof: Proof
    checkpoint: Checkpoint

    @property
    def leaf(self) -> bytes:
        """The entry's leaf hash."""
        return leaf_hash(self.entry)


class View:
    """One published log, as its files are at the moment of each question."""

    def __init__(self, publication: Publication) -> None:
        """Read this publication."""
        self._publication = publication

    def checkpoint(self) -> tuple[Checkpoint, bytes]:
        """Return the newest checkpoint, and the note. Raises AbsentError before the first one, OSError."""
        data = self._publication.checkpoint()
        if data is None:
            raise AbsentError("nothing is signed yet")
        return parse_checkpoint(parse_note(data).text), data

    def entries(self, number: int, size: int) -> list[bytes]:
        """Return the entries of a bundle in a tree of this size, as they are stored: nothing is proved.

        Raises TlogError for damaged files, OSError.
        """
        tile, _ = holding(0, number * WIDTH, size)
        return entries_of(self._publication.read(tile._replace(level=None)), tile.width)

    def entry(self, index: int) -> Proved:
        """Return an entry with its proof. Raises AbsentError, TlogError for damaged files, OSError."""
        checkpoint, data = self.checkpoint()
        if not 0 <= index < checkpoint.size:
            raise AbsentError(f"entry {index} is not in the checkpoint of {checkpoint.size} entries")
        tile, place = holding(0, index, checkpoint.size)
        entry = entries_of(self._publication.read(tile._replace(level=None)), tile.width)[place]
        hashes = TileHashes(checkpoint.size, checkpoint.root, self._publication.read)
        path = inclusion_proof(index, checkpoint.size, hashes)
        verify_inclusion(leaf_hash(entry), index, checkpoint.size, path, checkpoint.root)
        return Proved(index, entry, Proof(index, tuple(path), data), checkpoint)
