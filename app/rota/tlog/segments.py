"""The record files: which there are, where the newest ends, and reading on from a position.

Nothing here changes a file. Whoever holds no lock may read bytes that are not
all there yet: what is no sound frame is "not yet", and never an alarm.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from rota.errors import DamagedError, MalformedError
from rota.tlog.disk import Disk, Handle
from rota.tlog.frames import (
    HEAD_SIZE,
    LONGEST,
    SEAL,
    START,
    Chain,
    Frame,
    Position,
    ShortError,
    frames_of,
    last_frame,
    read_head,
)
from rota.tlog.merkle import Frontier

DIRECTORY = "records"
NEAR_END = 65_536  # bytes that are read from a file's end at first
CHUNK = 2 * LONGEST  # bytes that are read on at a time: at least one whole frame


def path_of(segment: int) -> str:
    """Return a record file's path: its name is the index of its first entry."""
    return f"{DIRECTORY}/{segment:016d}"


@dataclass(frozen=True)
class Tail:
    """The end of the records: where, the tree there, and of the last frame its offset and its last bytes."""

    position: Position
    frontier: Frontier
    previous: int = 0
    generation: int = 0
    trailer: bytes = b""
    sealed: bool = False


EMPTY = Tail(START, Frontier())


def tail_after(frame: Frame, segment: int, offset: int) -> Tail:
    """Return the tail when this frame, which begins at `offset`, is the last one."""
    head = frame.head
    return Tail(
        Position(segment, offset + head.total, head.end),
        frame.frontier,
        offset,
        head.generation,
        frame.trailer,
        head.kind == SEAL,
    )


def next_file(tail: Tail) -> Tail:
    """Return the tail of the empty record file that follows a sealed one."""
    size = tail.position.size
    return Tail(Position(size, 0, size), tail.frontier, 0, tail.generation)


def newest(disk: Disk) -> int:
    """Return the first index of the newest record file, 0 when there is none."""
    names = [name for name in disk.names(DIRECTORY) if name.isdecimal()]
    return int(names[-1]) if names else 0


def read_end(handle: Handle, segment: int, size: int) -> Tail | None:
    """Return the tail by the last frame of a file of this size, None where no sound frame ends it."""
    count = min(size, NEAR_END)
    try:
        try:
            frame = last_frame(handle.read(size - count, count))
        except ShortError as short:
            if short.needed > size:
                return None
            frame = last_frame(handle.read(size - short.needed, short.needed))
    except MalformedError:
        return None
    offset = size - frame.head.total
    if not _joins(handle, frame, segment, offset):
        raise DamagedError(
            f"{path_of(segment)}: the last frame, at byte {offset}, does not follow the one before it: "
            "it is damaged, or two writers did not see each other. Nothing is appended or signed"
        )
    return tail_after(frame, segment, offset)


def _joins(handle: Handle, frame: Frame, segment: int, offset: int) -> bool:
    """Tell whether a last frame begins where the one that it names as the previous ends."""
    if offset == 0:
        return frame.head.first == segment
    previous = frame.head.previous
    try:
        before = read_head(handle.read(previous, HEAD_SIZE))
    except MalformedError:
        return False
    return previous + before.total == offset and before.end == frame.head.first


def walk(handle: Handle, start: Tail) -> Tail:
    """Follow the sound frames of one file on from a tail in it; return the tail after the last."""
    tail = start
    while not tail.sealed:
        data = handle.read(tail.position.offset, CHUNK)
        base, before = tail.position.offset, tail
        for at, frame in frames_of(data):
            chain = Chain(tail.position, tail.frontier.root(), tail.previous)
            chain.follow(frame)
            tail = tail_after(frame, tail.position.segment, base + at)
        if tail is before:
            break
    return tail


def last_of(disk: Disk, segment: int) -> Tail:
    """Return the tail of a record file that a newer one follows. Raises DamagedError, OSError."""
    with contextlib.closing(disk.open(path_of(segment))) as handle:
        tail = read_end(handle, segment, handle.size())
    if tail is None or not tail.sealed:
        raise DamagedError(f"{path_of(segment)} is followed by another file, and does not say so")
    return tail


def first_of(disk: Disk, segment: int) -> Tail:
    """Return the tail of a record file when nothing is in it yet. Raises DamagedError, OSError."""
    if segment == 0:
        return EMPTY
    older = [int(name) for name in disk.names(DIRECTORY) if name.isdecimal() and int(name) < segment]
    if not older:
        raise DamagedError(f"the record files before {path_of(segment)} are missing")
    tail = next_file(last_of(disk, older[-1]))
    if tail.position.segment != segment:
        raise DamagedError(f"a record file between {path_of(older[-1])} and {path_of(segment)} is missing")
    return tail


def look(disk: Disk) -> Tail:
    """Return where the records end, as far as who holds no lock can see. Raises OSError, DamagedError."""
    segment = newest(disk)
    try:
        handle = disk.open(path_of(segment))
    except FileNotFoundError:
        return EMPTY
    with contextlib.closing(handle):
        size = handle.size()
        tail = read_end(handle, segment, size) if size else None
        return tail or walk(handle, first_of(disk, segment))


def read_on(disk: Disk, chain: Chain, until: Position) -> Iterator[tuple[Position, Frame]]:
    """Yield each frame from the chain's position up to another, with the position where it begins.

    Raises MalformedError where a frame does not join, DamagedError where one is
    missing, and OSError.
    """
    while chain.position < until:
        start = chain.position
        with contextlib.closing(disk.open(path_of(start.segment))) as handle:
            data = handle.read(start.offset, CHUNK)
        for _, frame in frames_of(data):
            before = chain.position
            chain.follow(frame)
            yield before, frame
            if chain.position >= until or chain.position.segment != start.segment:
                break
        if chain.position == start:
            raise DamagedError(
                f"{path_of(start.segment)} is damaged at byte {start.offset}: `rota tlog fsck` says more"
            )
