"""The newest entries of the record files: those that are appended, and not in a checkpoint yet. It blocks."""

import contextlib

from rota.errors import MalformedError
from rota.tlog.disk import Disk
from rota.tlog.frames import read_frame
from rota.tlog.segments import look, path_of


def recent(disk: Disk, since: int, most: int) -> list[tuple[int, bytes]]:
    """Return entries from this index on, with their indices, newest first.

    At most so many, and none of an older record file, which is soon signed.
    Raises OSError, TlogError.
    """
    tail = look(disk)
    found: list[tuple[int, bytes]] = []
    if tail.position.size <= since or not tail.position.offset:
        return found
    with contextlib.closing(disk.open(path_of(tail.position.segment))) as handle:
        offset, end = tail.previous, tail.position.offset
        while len(found) < most:
            try:
                frame = read_frame(handle.read(offset, end - offset))
            except MalformedError:
                break  # whoever holds no lock may read what is not all there
            numbered = enumerate(frame.entries, frame.head.first)
            found += [(index, entry) for index, entry in reversed(list(numbered)) if index >= since]
            if frame.head.first <= since or not offset:
                break
            offset, end = frame.head.previous, offset
    return found[:most]
