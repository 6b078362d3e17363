"""What a log's files hold, and what writers were told, compared."""

from pathlib import Path

from rota.tlog import segments
from rota.tlog.disk import LocalDisk
from rota.tlog.frames import START, Chain
from rota.tlog.merkle import EMPTY_ROOT, Frontier, leaf_hash


def entries_in(directory: Path) -> list[bytes]:
    """Return every entry of a log's record files, each frame's root recomputed and its chain checked."""
    disk, chain, frontier = LocalDisk(directory), Chain(START, EMPTY_ROOT), Frontier()
    found: list[bytes] = []
    for _, frame in segments.read_on(disk, chain, segments.look(disk).position):
        for entry in frame.entries:
            frontier.add(leaf_hash(entry))
        assert frontier.root() == frame.root
        found += frame.entries
    return found


def check_answers(directory: Path, *acknowledged: Path) -> int:
    """Make sure that what was answered is there, once and at its index; return how many entries there are."""
    found = entries_in(directory)
    assert len(set(found)) == len(found), "an entry stands twice"
    for path in acknowledged:
        for line in path.read_bytes().splitlines():
            index, _, name = line.partition(b" ")
            assert found[int(index)].rstrip() == name, f"{line!r} was answered"
    return len(found)
