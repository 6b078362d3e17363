"""Everything about a log checked anew from its files alone: nothing is believed, nothing is changed."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rota.errors import DamagedError, MalformedError, ProofError, SignatureError, TlogError
from rota.tlog import segments
from rota.tlog.disk import LocalDisk
from rota.tlog.frames import START, Chain
from rota.tlog.keys import Verifier
from rota.tlog.merkle import EMPTY_ROOT
from rota.tlog.opening import read_log_checkpoint
from rota.tlog.publication import CHECKPOINT, DIRECTORY, Publication
from rota.tlog.signing import SignedFile
from rota.tlog.tiles import Tile, implied, parse_path
from rota.tlog.tree import Tree
from rota.tlog.view import View


class Mark(NamedTuple):
    """A tree that was signed, and where that stands."""

    size: int
    root: bytes
    where: str


class Report:
    """What was found: the log's size and root, and one line for each problem."""

    def __init__(self) -> None:
        """Begin having found nothing."""
        self.size = 0
        self.root = EMPTY_ROOT
        self.published = 0
        self.files = 0
        self.unread = 0
        self.problems: list[str] = []


def check(directory: Path, log: Verifier | None) -> Report:
    """Re-hash a log's records, and compare all that is signed and published with them. Raises OSError.

    With the log's key the signatures are checked too.
    """
    report, publication = Report(), Publication(directory)
    marks = list(_marks(directory, publication, log, report))
    tree = Tree()
    try:
        _records(directory, tree, publication, marks, report)
    except TlogError as error:
        report.problems.append(str(error))
    report.size, report.root = tree.size, tree.root()
    report.problems += [
        f"{mark.where}: the tree of {mark.size} entries that was signed is not that of the records"
        for mark in marks
    ]
    report.problems += _strangers(directory, tree.size)
    return report


def _marks(directory: Path, publication: Publication, log: Verifier | None, report: Report) -> Iterator[Mark]:
    """Yield each tree that was signed; without the key, what the notes say is not believed."""
    notes: list[tuple[bytes, str]] = []
    try:
        signed = SignedFile(LocalDisk(directory)).last()
        if signed is not None:
            yield Mark(signed.size, bytes.fromhex(signed.root), "state/signed")
            notes.append((signed.note.encode(), "state/signed"))
    except TlogError as error:
        report.problems.append(str(error))
    published = publication.checkpoint()
    if published is not None:
        try:
            report.published = View(publication).checkpoint()[0].size
        except TlogError as error:
            report.problems.append(f"{DIRECTORY}/{CHECKPOINT}: {error}")
        notes.append((published, f"{DIRECTORY}/{CHECKPOINT}"))
    for data, where in notes:
        if log is None:
            continue
        try:
            checkpoint, _ = read_log_checkpoint(data, log)
        except (MalformedError, SignatureError) as error:
            report.problems.append(f"{where}: {error}")
        else:
            yield Mark(checkpoint.size, checkpoint.root, where)


def _records(
    directory: Path, tree: Tree, publication: Publication, marks: list[Mark], report: Report
) -> None:
    disk = LocalDisk(directory)
    chain, end = Chain(START, EMPTY_ROOT), segments.look(disk).position
    _signed_here(tree, marks)
    for _, frame in segments.read_on(disk, chain, end):
        for entry in frame.entries:
            for tile, data in tree.add(entry):
                _compare(publication, tile, data, report)
        if tree.root() != frame.root:
            raise DamagedError(f"the root at entry {tree.size} is not that of the entries before it")
        if tree.size == report.published:
            for tile, data in tree.partial():
                _compare(publication, tile, data, report)
        _signed_here(tree, marks)
    report.unread = _rest(disk, end.segment, end.offset)


def _signed_here(tree: Tree, marks: list[Mark]) -> None:
    """Strike off the marks of this very tree."""
    if any(mark.size == tree.size for mark in marks):
        root = tree.root()
        marks[:] = [mark for mark in marks if (mark.size, mark.root) != (tree.size, root)]


def _rest(disk: LocalDisk, segment: int, offset: int) -> int:
    try:
        handle = disk.open(segments.path_of(segment))
    except FileNotFoundError:
        return 0
    try:
        return handle.size() - offset
    finally:
        handle.close()


def _compare(publication: Publication, tile: Tile, data: bytes, report: Report) -> None:
    """Compare a published file with what the records say it must be; it may precede its checkpoint."""
    try:
        found = publication.read(tile)
    except FileNotFoundError:
        if implied(tile, report.published):
            report.problems.append(f"{DIRECTORY}/{tile.path} is missing")
        return
    report.files += 1
    if found != data:
        report.problems.append(f"{DIRECTORY}/{tile.path} is not what the records say it must be")


def _strangers(directory: Path, size: int) -> Iterator[str]:
    """Yield a line for each published file that no tree up to this size has."""
    root = directory / DIRECTORY
    for path in sorted((root / "tile").rglob("*")):
        if not path.is_file() or path.name.startswith("."):
            continue
        name = str(path.relative_to(root))
        try:
            known = implied(parse_path(name), size)
        except (MalformedError, ProofError):
            known = False
        if not known:
            yield f"{DIRECTORY}/{name} belongs to no tree of {size} entries"
