"""Whose turn it is to append: the outer lock, and how far the records are known to be durable.

`append.lock` is the cheap gate. It also remembers, under its lock, up to where
the last writer saw its bytes reach the disk: what lies beyond was left by one
that ended in between, and is written again before anyone builds on it.
"""

import random
import time
import zlib
from collections.abc import Callable
from struct import Struct

from rota.errors import BusyError
from rota.tlog.disk import Disk, Handle

FILE = "append.lock"
LONGEST_TURN = 5.0  # seconds from the lock to the last write; a file server's lease lasts three times as long
WAIT = 10.0  # seconds that a writer waits for its turn

_MARK = Struct(">QQ")
_CRC = Struct(">I")
_SHORTEST, _LONGEST = 0.0002, 0.002  # seconds between two tries
_FARTHER = 10  # times as long when the files lie on another host


def boot_clock() -> float:
    """Return seconds that go on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def sleep_longer(seconds: float) -> None:
    """Sleep between two tries where each one is a call to another host."""
    time.sleep(seconds * _FARTHER)


class Turn:
    """One writer's turn. It ends with `close`, or with the process."""

    def __init__(self, handle: Handle, clock: Callable[[], float]) -> None:
        """Begin now: the lock was just taken."""
        self._handle = handle
        self._clock = clock
        self._began = clock()

    @property
    def over(self) -> bool:
        """Whether this writer took so long that it may have lost its locks without hearing of it."""
        return self._clock() - self._began > LONGEST_TURN

    def check(self) -> None:
        """Call before each write. Raises BusyError once the turn is over."""
        if self.over:
            raise BusyError(f"the tlog's files took longer than {LONGEST_TURN:.0f} s to answer: try again")

    def durable(self) -> tuple[int, int] | None:
        """Return (record file, offset) up to which the records are known to be durable, if anyone said."""
        return durable_mark(self._handle)

    def note_durable(self, segment: int, offset: int) -> None:
        """Remember up to where they are. Not synced itself: it may be behind, and is never ahead."""
        packed = _MARK.pack(segment, offset)
        self._handle.write(0, packed + _CRC.pack(zlib.crc32(packed)))

    def close(self) -> None:
        """Let the next one have its turn."""
        self._handle.close()


def durable_mark(handle: Handle) -> tuple[int, int] | None:
    """Read (record file, offset) from the gate's file; None where nobody said, or somebody is saying it now.

    Whoever holds no lock may read it too: what lies before it never goes away.
    """
    data = handle.read(0, _MARK.size + _CRC.size)
    if len(data) != _MARK.size + _CRC.size or _CRC.pack(zlib.crc32(data[: _MARK.size])) != data[_MARK.size :]:
        return None
    segment, offset = _MARK.unpack_from(data)
    return segment, offset


def take_turn(
    disk: Disk,
    wait: float = WAIT,
    clock: Callable[[], float] = boot_clock,
    sleep: Callable[[float], None] = time.sleep,
) -> Turn:
    """Wait for the outer lock. Raises BusyError when it is not free in time, and OSError."""
    handle = disk.open(FILE, write=True)
    try:
        patiently(handle, wait, clock, sleep)
    except BaseException:
        handle.close()
        raise
    return Turn(handle, clock)


def patiently(
    handle: Handle, wait: float, clock: Callable[[], float], sleep: Callable[[float], None]
) -> None:
    """Lock a file, trying again and again. Raises BusyError when it is not free in time."""
    end, pause = clock() + wait, _SHORTEST
    while not handle.try_lock():
        if clock() >= end:
            raise BusyError(f"another writer has held the tlog for {wait:.0f} s: try again")
        sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads load, guards nothing
        pause = min(_LONGEST, pause * 1.5)
