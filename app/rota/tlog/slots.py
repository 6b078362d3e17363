"""A small value that is replaced whole or not at all, in a file that is locked and written itself.

Two slots take turns, each with its number and checksum: a write that is cut off
leaves the other one. The file is never renamed, so that its lock means something
on a file server too.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from struct import Struct

from rota.errors import DamagedError
from rota.tlog.disk import Disk, Handle
from rota.tlog.turn import WAIT, boot_clock, patiently

SLOT = 65_536  # bytes
_HEAD = Struct(">QI32s")  # number, length, SHA-256 of number, length and value
LONGEST = SLOT - _HEAD.size


class Slots:
    """One value in one file."""

    def __init__(self, disk: Disk, path: str, sleep: Callable[[float], None]) -> None:
        """Keep the value at this path."""
        self._disk = disk
        self._path = path
        self._sleep = sleep

    def read(self) -> bytes | None:
        """Return the value, None where there never was one. Raises DamagedError, OSError."""
        try:
            handle = self._disk.open(self._path)
        except FileNotFoundError:
            return None
        with closing(handle):
            return self._newest(handle)[1]

    @contextmanager
    def changing(self) -> Iterator["Change"]:
        """Hold the file's lock; give the value as it is, and a way to replace it. Raises BusyError."""
        with closing(self._disk.open(self._path, write=True)) as handle:
            patiently(handle, WAIT, boot_clock, self._sleep)
            if handle.size() == 0:
                self._disk.sync_directory(self._path.rpartition("/")[0])
            number, value = self._newest(handle)
            yield Change(handle, number, value)

    def _newest(self, handle: Handle) -> tuple[int, bytes | None]:
        size = handle.size()
        sound = [found for at in (0, SLOT) if (found := _slot(handle.read(at, SLOT))) is not None]
        if sound:
            return max(sound)
        # the very first write may have been cut off; from the second slot on there is always a sound one
        if size > SLOT:
            raise DamagedError(
                f"{self._path} is damaged: put back a copy, or remove it if you know what it held"
            )
        return 0, None


class Change:
    """The value under its lock."""

    def __init__(self, handle: Handle, number: int, value: bytes | None) -> None:
        """Hold this value, which was written as this number."""
        self.value = value
        self._handle = handle
        self._number = number

    def replace(self, value: bytes) -> None:
        """Write another value, durably. Raises OSError; then the old one stands."""
        if len(value) > LONGEST:
            raise ValueError(f"a slot holds {LONGEST} bytes")
        fresh = self._number == 0
        self._put(value)
        if fresh:  # so that a file with one sound slot is never taken for one without any
            self._put(value)

    def _put(self, value: bytes) -> None:
        number = self._number + 1
        at = (number - 1) % 2 * SLOT
        self._handle.write(at, _HEAD.pack(number, len(value), _digest(number, value)) + value)
        self._handle.sync()
        self._number, self.value = number, value


def _slot(data: bytes) -> tuple[int, bytes] | None:
    if len(data) < _HEAD.size:
        return None
    number, length, digest = _HEAD.unpack_from(data)
    value = data[_HEAD.size : _HEAD.size + length]
    if number == 0 or len(value) != length or _digest(number, value) != digest:
        return None
    return number, value


def _digest(number: int, value: bytes) -> bytes:
    return sha256(number.to_bytes(8, "big") + len(value).to_bytes(4, "big") + value).digest()
