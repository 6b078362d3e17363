"""Frames: how a batch of entries lies in a record file. No I/O.

    header, its CRC-32 | (length, entry)… | right edge of the tree | SHA-256/16 | length of the frame | END1

The edge makes catching up with other writers one read of the file's end,
where the last eight bytes say where the last frame begins. Each frame names its
writer and the root before it, so that two writers who did not see each other
leave a chain that does not join.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from struct import Struct
from typing import NamedTuple

from rota.errors import MalformedError
from rota.tlog.merkle import Frontier
from rota.tlog.strict import HASH_SIZE, number
from rota.tlog.tiles import bundle, entries_of

ENTRIES, SEAL = 1, 2  # kinds: a batch; the end of a record file that another one follows
MAGIC = b"RTL1"
END = b"END1"  # never zeros, so that a sector of zeros at a frame's end is a lost one
MOST_ENTRIES = 1024  # of one frame
MOST_BODY = 4 * 1024 * 1024  # bytes of one frame's entries, lengths included

_HEADER = Struct(">4sHH16sQQQIIQ32s")
_CRC = Struct(">I")
_TOTAL = Struct(">I4s")
_DIGEST_SIZE = 16
_VERSION = 1
HEAD_SIZE = _HEADER.size + _CRC.size
TRAILER_SIZE = _DIGEST_SIZE + _TOTAL.size
LONGEST = HEAD_SIZE + MOST_BODY + 64 * HASH_SIZE + TRAILER_SIZE


class Position(NamedTuple):
    """The end of a frame: the record file's first index, the offset in it, and the log's size there."""

    segment: int
    offset: int
    size: int

    def __str__(self) -> str:
        """Write it for a database row."""
        return f"{self.segment}:{self.offset}:{self.size}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Read it from a row. Raises MalformedError."""
        parts = text.split(":")
        if len(parts) != 3:  # noqa: PLR2004
            raise MalformedError(f"{text!r} is no position in the records")
        return cls(*map(number, parts))


START = Position(0, 0, 0)


@dataclass(frozen=True)
class Head:
    """What a frame says before its entries; `previous` is the offset of the frame before it."""

    kind: int
    writer: bytes
    generation: int
    sequence: int
    first: int
    count: int
    body: int
    previous: int
    root_before: bytes

    @property
    def end(self) -> int:
        """The log's size after the frame."""
        return self.first + self.count

    @property
    def total(self) -> int:
        """The bytes of the whole frame."""
        return HEAD_SIZE + self.body + self.end.bit_count() * HASH_SIZE + TRAILER_SIZE


@dataclass(frozen=True)
class Frame:
    """A whole frame whose checksum holds."""

    head: Head
    body: bytes
    edge: tuple[bytes, ...]
    trailer: bytes

    @cached_property
    def entries(self) -> list[bytes]:
        """Its entries, taken apart when they are asked for: who only catches up never asks."""
        return entries_of(self.body, self.head.count)

    @property
    def frontier(self) -> Frontier:
        """The tree's right edge after it."""
        return Frontier(self.head.end, self.edge)

    @cached_property
    def root(self) -> bytes:
        """The root after it, as its writer had it."""
        return self.frontier.root()


def make_frame(head: Head, entries: Sequence[bytes], edge: Sequence[bytes]) -> bytes:
    """Return a frame's bytes; the head's `count` and `body` are taken from the entries."""
    body = bundle(entries)
    packed = _HEADER.pack(
        MAGIC,
        _VERSION,
        head.kind,
        head.writer,
        head.generation,
        head.sequence,
        head.first,
        len(entries),
        len(body),
        head.previous,
        head.root_before,
    )
    before = b"".join((packed, _CRC.pack(zlib.crc32(packed)), body, *edge))
    digest = sha256(before).digest()[:_DIGEST_SIZE]
    return before + digest + _TOTAL.pack(len(before) + TRAILER_SIZE, END)


def read_head(data: bytes, at: int = 0) -> Head:
    """Read a frame's header. Raises MalformedError."""
    if len(data) - at < HEAD_SIZE:
        raise MalformedError("no whole header")
    (crc,) = _CRC.unpack_from(data, at + _HEADER.size)
    if zlib.crc32(memoryview(data)[at : at + _HEADER.size]) != crc:
        raise MalformedError("a header whose checksum is wrong")
    magic, version, kind, *rest = _HEADER.unpack_from(data, at)
    head = Head(kind, *rest)
    if magic != MAGIC or version != _VERSION or kind not in (ENTRIES, SEAL):
        raise MalformedError("a frame of another program's making")
    if head.count > MOST_ENTRIES or head.body > MOST_BODY:
        raise MalformedError("a frame that is larger than any")
    return head


def read_frame(data: bytes, at: int = 0) -> Frame:
    """Read the frame that begins here. Raises MalformedError for all but a whole and sound one."""
    head = read_head(data, at)
    end = at + head.total
    if end > len(data):
        raise MalformedError("no whole frame")
    trailer = data[end - TRAILER_SIZE : end]
    covered = memoryview(data)[at : end - TRAILER_SIZE]
    if trailer != sha256(covered).digest()[:_DIGEST_SIZE] + _TOTAL.pack(head.total, END):
        raise MalformedError("a frame whose checksum is wrong")
    body = at + HEAD_SIZE
    edge = body + head.body
    hashes = tuple(data[here : here + HASH_SIZE] for here in range(edge, end - TRAILER_SIZE, HASH_SIZE))
    return Frame(head, data[body:edge], hashes, trailer)


def last_frame(data: bytes) -> Frame:
    """Read the frame that ends where the data does. Raises MalformedError, or ShortError for too little."""
    if len(data) < TRAILER_SIZE:
        raise MalformedError("no whole frame")
    total, end = _TOTAL.unpack_from(data, len(data) - _TOTAL.size)
    if end != END or not HEAD_SIZE + TRAILER_SIZE <= total <= LONGEST:
        raise MalformedError("no frame ends here")
    if total > len(data):
        raise ShortError(total)
    frame = read_frame(data, len(data) - total)
    if frame.head.total != total:
        raise MalformedError("no frame ends here")
    return frame


class ShortError(MalformedError):
    """More of the file's end is needed: this many bytes."""

    def __init__(self, needed: int) -> None:
        """Say how many."""
        super().__init__(f"the last frame has {needed} bytes")
        self.needed = needed


class Chain:
    """Follows frames one after another, and refuses one that does not join."""

    def __init__(self, position: Position, root: bytes | None, previous: int | None = None) -> None:
        """Begin after the frame that ends here; its root and its offset are checked where they are known."""
        self.position = position
        self.root = root
        self.previous = previous
        self.generation = 0

    def follow(self, frame: Frame) -> None:
        """Take the next frame. Raises MalformedError where it is not the next."""
        head, at = frame.head, self.position.offset
        joins = (
            head.first == self.position.size
            and self.root in (None, head.root_before)
            and self.previous in (None, head.previous)
        )
        if not joins:
            raise MalformedError(
                f"the frame at {at} of records {self.position.segment} is not the one that follows: "
                "two writers did not see each other"
            )
        if head.generation < self.generation:
            raise MalformedError(f"the frame at {at} is of an older generation than the one before it")
        self.generation = head.generation
        self.root = frame.root
        if head.kind == SEAL:
            self.position, self.previous = Position(head.end, 0, head.end), 0
        else:
            self.position = Position(self.position.segment, at + head.total, head.end)
            self.previous = at


def frames_of(data: bytes) -> Iterator[tuple[int, Frame]]:
    """Yield (offset, frame) as long as whole and sound ones follow; stop at the first that is not."""
    at = 0
    while at < len(data):
        try:
            frame = read_frame(data, at)
        except MalformedError:
            return
        yield at, frame
        at += frame.head.total
