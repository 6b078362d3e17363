"""Following the log without a lock: the entries after a place, as far as they are known to be durable.

What a writer has not yet seen on the disk may be cut away after a crash, and
another entry take its index. So whoever acts on entries goes no further than
the mark that writers keep beside their lock. These functions block.
"""

import contextlib
from dataclasses import dataclass

from rota.errors import DamagedError, MalformedError, TlogError
from rota.tlog import segments
from rota.tlog.disk import Disk
from rota.tlog.frames import Chain, Position
from rota.tlog.turn import FILE, durable_mark


@dataclass(frozen=True)
class Stretch:
    """Entries with their indices, and where the next one begins. `more` where others wait already."""

    entries: tuple[tuple[int, bytes], ...]
    position: Position
    root: bytes | None
    more: bool = False


def durable_end(disk: Disk) -> Position | None:
    """Return up to where entries are durable, of which the size is not known; None where nobody said.

    Raises TlogError where the files cannot be read.
    """
    try:
        with contextlib.closing(disk.open(FILE)) as handle:
            mark = durable_mark(handle)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TlogError(f"the tlog's files cannot be read: {error.strerror}") from error
    return None if mark is None else Position(*mark, 0)


def follow(disk: Disk, position: Position, root: bytes | None, most: int) -> Stretch:
    """Return the entries after a position, `most` of them or a few more; the root there is checked.

    Raises TlogError, and DamagedError where the log is not the one that was read before.
    """
    end = durable_end(disk)
    if end is None:
        return Stretch((), position, root)
    chain, entries = Chain(position, root), list[tuple[int, bytes]]()
    try:
        if end[:2] < position[:2]:
            _refuse_older(disk, position)
        for _, frame in segments.read_on(disk, chain, end):
            entries += enumerate(frame.entries, frame.head.first)
            if len(entries) >= most:
                break
    except MalformedError as error:
        raise DamagedError(f"the tlog is not the one that was read before: {error}") from error
    except OSError as error:
        raise TlogError(f"the tlog's files cannot be read: {error.strerror}") from error
    return Stretch(tuple(entries), chain.position, chain.root, more=chain.position < end)


def _refuse_older(disk: Disk, position: Position) -> None:
    """Raise DamagedError where the log itself ends before a position, and not only the mark.

    The mark is not synced: after a crash it may be behind. It also stays in a file that was sealed.
    """
    last = segments.look(disk).position
    if last.size < position.size:
        raise DamagedError(
            f"the tlog has {last.size} entries, and {position.size} were read before: this is an older copy"
        )
