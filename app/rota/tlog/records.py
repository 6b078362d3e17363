"""Appending to the record files, from any number of processes on any host that shares them.

Each append: the outer lock; the record file opened anew and locked itself,
because a file server fences only the file that carries the lock; its end read,
and what a crashed writer left finished or cut; one frame written; one sync; and
a look whether it is really there. Only then is anything answered.

These functions block. They run in a thread; one `Records` serves one thread.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass

import structlog

from rota.errors import DamagedError, FencedError, MalformedError, TlogError
from rota.tlog import segments
from rota.tlog.disk import Disk, Handle
from rota.tlog.frames import ENTRIES, SEAL, TRAILER_SIZE, Chain, Head, Position, make_frame, read_frame
from rota.tlog.merkle import Frontier, leaf_hash
from rota.tlog.segments import EMPTY, Tail, path_of
from rota.tlog.torn import refuse_if_damaged
from rota.tlog.turn import WAIT, Turn, boot_clock, patiently, take_turn

SEGMENT = 256 * 1024 * 1024  # bytes after which a record file is sealed and another one begins
TORN = "torn"  # the directory that keeps what was cut away

log = structlog.get_logger("rota.tlog")


@dataclass(frozen=True)
class Logged:
    """Where an entry stands in the log."""

    index: int
    leaf: bytes


@dataclass(frozen=True)
class Written:
    """A frame's bytes, and where they begin."""

    position: Position
    data: bytes


@dataclass
class Rules:
    """What a writer keeps to; tests make files smaller and clocks jump."""

    segment: int = SEGMENT
    wait: float = WAIT
    shared: bool = False  # the files lie on another host: read back from there what was written
    clock: Callable[[], float] = boot_clock
    sleep: Callable[[float], None] = time.sleep


class Records:
    """The writer's view of the record files."""

    def __init__(
        self, disk: Disk, floor: Callable[[], int], generation: int = 0, rules: Rules | None = None
    ) -> None:
        """Write for a hub of this generation; `floor` gives the size below which nothing may be cut."""
        self.generation = generation
        self.tail: Tail = EMPTY  # where this process last saw the end
        self._disk = disk
        self._floor = floor
        self._rules = rules or Rules()
        self._writer = os.urandom(16)
        self._sequence = 0
        self._known = False  # whether `tail` came from the files

    def append(self, entries: Sequence[bytes], since: Position | None = None) -> list[Logged]:
        """Append entries in one frame, durably, and return where each one stands.

        With `since`, an entry that already stands after that position is not
        appended again: it is looked for under the lock, so that no two
        processes can both miss it. Raises TlogError, BusyError or FencedError:
        then nothing was answered, and the entries may or may not be in the log.
        """
        try:
            return self._append(entries, since)
        except OSError as error:
            self._known = False
            raise TlogError(f"the tlog's files: {error.strerror}: nothing was done") from error

    def _append(self, entries: Sequence[bytes], since: Position | None) -> list[Logged]:
        written: Written | None = None
        leaves = [leaf_hash(entry) for entry in entries]
        with self._turn() as (turn, handle):
            found = self._find(leaves, since) if since is not None else {}
            start = self.tail.position.size
            missing: list[tuple[bytes, bytes]] = []
            for entry, leaf in zip(entries, leaves, strict=True):
                if since is None or leaf not in found:
                    found[leaf] = start + len(missing)
                    missing.append((entry, leaf))
            if missing:
                written = self._write(turn, handle, missing)
        if written and turn.over:
            self._confirm(written)
        if since is not None:
            return [Logged(found[leaf], leaf) for leaf in leaves]
        return [Logged(start + at, leaf) for at, leaf in enumerate(leaves)]

    def settle(self) -> Tail:
        """Finish or cut what a crashed writer left, make all of it durable, and return the tail.

        Raises as `append` does.
        """
        try:
            with self._turn():
                return self.tail
        except OSError as error:
            self._known = False
            raise TlogError(f"the tlog's files: {error.strerror}") from error

    @contextmanager
    def _turn(self) -> Iterator[tuple[Turn, Handle]]:
        """Hold both locks, the end being read, whole and durable."""
        with ExitStack() as stack:
            yield self._hold(stack)

    def _hold(self, stack: ExitStack) -> tuple[Turn, Handle]:
        rules = self._rules
        turn = stack.enter_context(closing(take_turn(self._disk, rules.wait, rules.clock, rules.sleep)))
        tail = self.tail if self._known else None
        segment = tail.position.segment if tail else segments.newest(self._disk)
        while True:
            handle = self._open(stack, segment)
            self.tail = self._settled(turn, handle, segment)
            self._known = True
            if self.tail.generation > self.generation:
                raise FencedError(
                    f"the tlog is written by generation {self.tail.generation} of this hub, and this process "
                    f"belongs to generation {self.generation}: restart it"
                )
            if not self.tail.sealed and self.tail.position.offset >= rules.segment:
                self._seal(turn, handle)
            if not self.tail.sealed:
                return turn, handle
            segment = self.tail.position.size

    def _open(self, stack: ExitStack, segment: int) -> Handle:
        handle = stack.enter_context(closing(self._disk.open(path_of(segment), write=True)))
        patiently(handle, self._rules.wait, self._rules.clock, self._rules.sleep)
        if handle.size() == 0:
            self._disk.sync_directory(segments.DIRECTORY)
        return handle

    def _settled(self, turn: Turn, handle: Handle, segment: int) -> Tail:
        """Return the tail of this file, whole and durable."""
        size = handle.size()
        known = self.tail if self._known and self.tail.position.segment == segment else None
        if known and size == known.position.offset and turn.durable() == (segment, size):
            trailer = handle.read(size - TRAILER_SIZE, TRAILER_SIZE) if size else b""
            if trailer == known.trailer:
                return known
        tail = segments.read_end(handle, segment, size) if size else None
        if tail is None:
            tail = segments.walk(handle, self._base(handle, segment, size))
            _refuse_loss(turn, tail)
            if tail.position.offset < size:
                self._cut(turn, handle, tail, size)
        least = max(self._floor(), self.tail.position.size)
        if tail.position.size < least:
            raise DamagedError(
                f"the tlog ends at {tail.position.size}, and it was at {least} once: an older copy was "
                "put in its place. Nothing is appended: put back a copy that has all entries"
            )
        _refuse_loss(turn, tail)
        self._harden(turn, handle, tail)
        return tail

    def _base(self, handle: Handle, segment: int, size: int) -> Tail:
        """Return a tail in this file from which to walk on: where this process last was, or its beginning."""
        known = self.tail
        end = known.position.offset
        if known.position.segment == segment and TRAILER_SIZE <= end <= size:
            if handle.read(end - TRAILER_SIZE, TRAILER_SIZE) == known.trailer:
                return known
            raise DamagedError(f"{path_of(segment)} has changed before byte {end}. Nothing is appended")
        return segments.first_of(self._disk, segment)

    def _cut(self, turn: Turn, handle: Handle, tail: Tail, size: int) -> None:
        """Cut a torn end away, and keep it aside. Raises DamagedError where it is no torn end."""
        offset, name = tail.position.offset, path_of(tail.position.segment)
        rest = handle.read(offset, size - offset, fresh=self._rules.shared)
        refuse_if_damaged(rest, offset, name)
        if tail.position.size < self._floor():
            raise DamagedError(
                f"{name} ends at entry {tail.position.size}, and {self._floor()} are signed: "
                "put back a copy that has them all. Nothing is appended"
            )
        turn.check()
        aside = f"{TORN}/{tail.position.segment:016d}-{offset}-{os.urandom(4).hex()}"
        with closing(self._disk.open(aside, write=True)) as kept:
            kept.write(0, rest)
            kept.sync()
        handle.truncate(offset)
        handle.sync()
        log.warning("torn append cut away", file=name, offset=offset, bytes=len(rest), kept=aside)

    def _harden(self, turn: Turn, handle: Handle, tail: Tail) -> None:
        """Make sure that the end is durable: after a failed sync the pages look clean and may not be.

        What nobody has seen on the disk is written again, and then synced.
        """
        end = tail.position.offset
        mark = turn.durable()
        if mark == (tail.position.segment, end) or (end == 0 and mark is None):
            return
        start = tail.previous
        if mark is not None and mark[0] == tail.position.segment and mark[1] < end:
            start = min(start, mark[1])
        turn.check()
        while start < end:
            part = handle.read(start, min(end - start, segments.CHUNK))
            handle.write(start, part)
            start += len(part)
        handle.sync()
        turn.note_durable(tail.position.segment, end)

    def _find(self, leaves: Sequence[bytes], since: Position) -> dict[bytes, int]:
        """Return the first index after a position of each of these leaf hashes that stands there."""
        wanted, found = set(leaves), dict[bytes, int]()
        chain = Chain(since, None)
        for _, frame in segments.read_on(self._disk, chain, self.tail.position):
            for at, entry in enumerate(frame.entries):
                leaf = leaf_hash(entry)
                if leaf in wanted:
                    found.setdefault(leaf, frame.head.first + at)
        return found

    def _write(self, turn: Turn, handle: Handle, added: Sequence[tuple[bytes, bytes]]) -> "Written":
        frontier = self.tail.frontier.copy()
        for _, leaf in added:
            frontier.add(leaf)
        head = self._head(ENTRIES, len(added))
        return self._put(turn, handle, head, [entry for entry, _ in added], frontier.hashes)

    def _seal(self, turn: Turn, handle: Handle) -> None:
        """End this record file; the next writer, this one as a rule, begins another."""
        self._put(turn, handle, self._head(SEAL, 0), [], self.tail.frontier.hashes)

    def _head(self, kind: int, count: int) -> Head:
        self._sequence += 1
        position = self.tail.position
        return Head(
            kind,
            self._writer,
            self.generation,
            self._sequence,
            position.size,
            count,
            0,
            self.tail.previous,
            self.tail.frontier.root(),
        )

    def _put(
        self, turn: Turn, handle: Handle, head: Head, entries: Sequence[bytes], edge: Sequence[bytes]
    ) -> "Written":
        """Write one frame at the end, make it durable, and look at it again."""
        position = self.tail.position
        data = make_frame(head, entries, edge)
        turn.check()
        try:
            handle.write(position.offset, data)
            handle.sync()
        except OSError as error:
            self._undo(handle, position.offset)
            raise TlogError(f"the tlog could not be written: {error.strerror}: nothing was done") from error
        self._look_again(handle, position, data)
        end = position.offset + len(data)
        turn.note_durable(position.segment, end)
        size = position.size + len(entries)
        self.tail = Tail(
            Position(position.segment, end, size),
            Frontier(size, edge),
            position.offset,
            self.generation,
            data[-TRAILER_SIZE:],
            head.kind == SEAL,
        )
        return Written(position, data)

    def _confirm(self, written: "Written") -> None:
        """Look again, in a new turn: ours took so long that another writer may have had one meanwhile."""
        with self._turn():
            path = path_of(written.position.segment)
            with closing(self._disk.open(path)) as handle:
                found = handle.read(written.position.offset, len(written.data), fresh=self._rules.shared)
        if found != written.data:
            raise DamagedError(f"{path}: what was written too slowly is not there any more: nothing was done")

    def _look_again(self, handle: Handle, position: Position, data: bytes) -> None:
        """Make sure that the file holds what was written."""
        found = handle.read(position.offset, len(data), fresh=self._rules.shared)
        if found == data:
            return
        self._known = False
        try:
            read_frame(found)
        except MalformedError:
            self._undo(handle, position.offset)
            raise TlogError("the tlog's disk did not keep what was written: nothing was done") from None
        raise DamagedError(f"{path_of(position.segment)}: another writer wrote over what was just written")

    def _undo(self, handle: Handle, offset: int) -> None:
        """Take back what may have been written. Where that fails too, the next turn finds out."""
        self._known = False
        with suppress(OSError):
            handle.truncate(offset)
            handle.sync()


def _refuse_loss(turn: Turn, tail: Tail) -> None:
    """Raise DamagedError where the records end before what a writer saw on the disk, and answered."""
    mark, end = turn.durable(), (tail.position.segment, tail.position.offset)
    if mark is not None and mark > end and not tail.sealed:
        raise DamagedError(
            f"{path_of(end[0])} is sound up to byte {end[1]}, and was durable up to byte {mark[1]} of "
            f"{path_of(mark[0])}: "
            "it is damaged, or an older copy. Nothing is appended: put back one that is whole"
        )
