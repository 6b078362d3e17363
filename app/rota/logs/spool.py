"""What was read and has not reached the primary: on disk, bounded, in order, for one copy of an instance.

Segments are appended to and deleted whole; a small file says how far the
primary has everything. A reader that was ended by force may leave half a line
at the end, which is cut off; the next entry then says that a gap lies before it.
"""

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rota.logs.entry import UNKNOWN, Entry, Line

BOUND = 64 * 1024 * 1024  # bytes that wait at most
SEGMENT = 1024 * 1024
BATCH = 256 * 1024  # bytes that are sent at once
CLEAN, SENT = "clean", "sent"
LINES = 50


class Spool:
    """One copy's. Owned by one reader."""

    def __init__(self, directory: Path, bound: int = BOUND) -> None:
        """Keep it in this directory, which is made."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory = directory
        self._bound = bound
        self._dropped = 0
        self._number = self._recover()
        self._size = sum(path.stat().st_size for path in self._segments())
        self._sent = self._read_sent()
        self._file = self._open()

    def put(self, lines: Sequence[Line]) -> None:
        """Number lines and keep them; those that do not fit are counted, and the count stands at the gap."""
        if not lines:
            return
        if self._size >= self._bound:
            self._dropped = UNKNOWN if self._dropped == UNKNOWN else self._dropped + len(lines)
            return
        now, out = time.time_ns() // 1000, bytearray()
        for line in lines:
            self._number += 1
            text = line.data.decode(errors="replace")
            out += msgspec.json.encode(Entry(self._number, now, text, self._dropped, line.cut)) + b"\n"
            self._dropped = 0
        os.write(self._file, out)
        self._size += len(out)
        if os.fstat(self._file).st_size >= SEGMENT:
            os.close(self._file)
            self._file = self._open(new=True)

    @property
    def full(self) -> bool:
        """Whether what comes now is counted and lost."""
        return self._size >= self._bound

    def batch(self) -> tuple[list[Entry], tuple[int, int]]:
        """Return the next entries to send, and what to give to `done` once the primary has them."""
        name, offset = self._sent
        for path in self._segments():
            segment = int(path.name)
            if segment < name:
                continue
            start = offset if segment == name else 0
            with path.open("rb") as file:
                file.seek(start)
                data = file.read(BATCH)
            end = data.rfind(b"\n") + 1
            if end:
                entries = [msgspec.json.decode(line, type=Entry) for line in data[:end].splitlines()]
                return entries, (segment, start + end)
        return [], self._sent

    def done(self, upto: tuple[int, int]) -> None:
        """Forget what the primary has."""
        self._sent = upto
        draft = self.directory / f".{SENT}"
        draft.write_text(f"{upto[0]} {upto[1]}")
        draft.rename(self.directory / SENT)
        if self.full:  # the newest segment too must make room once it is sent
            os.close(self._file)
            self._file = self._open(new=True)
        for path in self._segments()[:-1]:
            if int(path.name) < upto[0] or (int(path.name) == upto[0] and path.stat().st_size <= upto[1]):
                self._size -= path.stat().st_size
                path.unlink()

    @property
    def empty(self) -> bool:
        """Whether the primary has everything."""
        return not self.batch()[0]

    def close(self) -> None:
        """End well: the next reader goes on without a gap."""
        os.close(self._file)
        if self._dropped == 0:
            (self.directory / CLEAN).write_text(str(self._number))

    def remove(self) -> None:
        """Delete it; its instance is gone and the primary has everything."""
        os.close(self._file)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _segments(self) -> list[Path]:
        return sorted(
            (path for path in self.directory.iterdir() if path.name.isdecimal()),
            key=lambda path: int(path.name),
        )

    def _open(self, *, new: bool = False) -> int:
        segments = self._segments()
        newest = int(segments[-1].name) if segments else 0
        name = newest + 1 if new or not segments else newest
        return os.open(
            self.directory / str(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )

    def _recover(self) -> int:
        """Cut half a line off, and return the last number; note whether the last reader ended well."""
        clean = self.directory / CLEAN
        segments, number = self._segments(), 0
        for path in reversed(segments):
            data = path.read_bytes()
            end = data.rfind(b"\n") + 1
            if end < len(data):
                os.truncate(path, end)
            if end:
                last = data[:end].splitlines()[-1]
                number = msgspec.json.decode(last, type=Entry).number
                break
        if clean.exists():
            number = max(number, int(clean.read_text() or 0))
            clean.unlink()
        elif segments:
            self._dropped = UNKNOWN
        return number

    def _read_sent(self) -> tuple[int, int]:
        try:
            segment, offset = (self.directory / SENT).read_text().split()
            return int(segment), int(offset)
        except (FileNotFoundError, ValueError):
            return 0, 0


def last_lines(directory: Path, count: int = LINES) -> str:
    """Return the last lines of a spool that another process may be writing."""
    lines: list[str] = []
    names = sorted(
        (int(path.name) for path in directory.glob("[0-9]*") if path.name.isdecimal()), reverse=True
    )
    for name in names:
        try:
            data = (directory / str(name)).read_bytes()
        except FileNotFoundError:
            continue
        whole = data[: data.rfind(b"\n") + 1].splitlines()
        entries = [msgspec.json.decode(line, type=Entry).text for line in whole[-count:]]
        lines = [*entries, *lines][-count:]
        if len(lines) >= count:
            break
    return "\n".join(lines)
