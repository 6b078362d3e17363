"""Apps' output on the primary: for each app a directory of files, which are appended to and rotated.

Several web processes append: each under an exclusive flock of the app's. Beside
the files lies how far each copy of each server is there, with the size of the
newest file at that time; where the two disagree, a process ended between them,
and the rest of the file is read again.
"""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rota.logs.parcel import Lined

MEGABYTE = 1_000_000  # bytes
FILES = 16  # among which what is kept is divided
INDEX = "index"


class _Index(msgspec.Struct):
    """The newest file, its size, and the last number of each SERVER/COPY."""

    file: int = 1
    size: int = 0
    last: dict[str, int] = {}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to look for; what is empty or None does not restrict. `since` is in microseconds since 1970."""

    process_type: str = ""
    server: str = ""
    instance: str = ""
    release: int | None = None
    since: int = 0
    contains: str = ""

    def matches(self, line: Lined) -> bool:
        """Tell whether a line is wanted."""
        return (
            self.process_type in ("", line.process_type)
            and self.server in ("", line.server)
            and self.instance in ("", line.instance)
            and self.release in (None, line.release)
            and line.at >= self.since
            and (not self.contains or self.contains in line.text)
        )


@dataclass(frozen=True)
class Place:
    """Where in an app's files one has read up to."""

    file: int
    offset: int


class Shelf:
    """Every app's. It blocks."""

    def __init__(self, directory: Path, keep: int) -> None:
        """Keep so many bytes of each app in this directory."""
        self._directory = directory
        self._most = max(keep // FILES, 4096)

    def append(self, lines: Sequence[Lined]) -> int:
        """Keep lines that are not there yet; return how many. Raises OSError."""
        kept = 0
        for app in sorted({line.app for line in lines}):
            kept += self._append(app, [line for line in lines if line.app == app])
        return kept

    def newest(self, app: str, wanted: Wanted, count: int) -> tuple[list[Lined], Place]:
        """Return the newest lines that are wanted, the oldest of them first, and where to go on."""
        found: list[Lined] = []
        end = self.end(app)
        for number in reversed(self._files(app)):
            data = self._read(app, number, 0)
            if number == end.file:
                data = data[: end.offset]
            lines = [line for line in _lines(data) if wanted.matches(line)]
            found = [*lines, *found]
            if len(found) >= count:
                break
            if lines and lines[0].at < wanted.since:
                break
        return found[-count:] if count else [], end

    def after(self, app: str, place: Place, wanted: Wanted) -> tuple[list[Lined], Place]:
        """Return what came after a place, and where to go on."""
        found: list[Lined] = []
        for number in self._files(app):
            if number < place.file:
                continue
            start = place.offset if number == place.file else 0
            data = self._read(app, number, start)
            whole = data[: data.rfind(b"\n") + 1]
            found += [line for line in _lines(whole) if wanted.matches(line)]
            place = Place(number, start + len(whole))
        return found, place

    def end(self, app: str) -> Place:
        """Return where an app's output ends now."""
        files = self._files(app)
        if not files:
            return Place(0, 0)
        data = self._read(app, files[-1], 0)
        return Place(files[-1], data.rfind(b"\n") + 1)

    def _append(self, app: str, lines: Sequence[Lined]) -> int:
        with self._held(app) as index:
            fresh, out = 0, bytearray()
            for line in lines:
                key = f"{line.server}/{line.instance}@{line.release}"
                if line.number <= index.last.get(key, 0):
                    continue
                index.last[key] = line.number
                out += msgspec.json.encode(line) + b"\n"
                fresh += 1
            if not out:
                return 0
            if index.size >= self._most:
                index.file, index.size = index.file + 1, 0
                self._delete_oldest(app)
            path = self._directory / app / str(index.file)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                _write(descriptor, bytes(out))
                index.size = os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
            return fresh

    @contextmanager
    def _held(self, app: str) -> Iterator[_Index]:
        """Hold an app's files, its index as they really are; write the index back."""
        directory = self._directory / app
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            index = self._load(app)
            yield index
            draft = directory / f".{INDEX}"
            draft.write_bytes(msgspec.json.encode(index))
            draft.rename(directory / INDEX)
        finally:
            os.close(descriptor)

    def _load(self, app: str) -> _Index:
        path = self._directory / app / INDEX
        try:
            index = msgspec.json.decode(path.read_bytes(), type=_Index)
        except (FileNotFoundError, msgspec.MsgspecError):
            index = _Index()
        for number in self._files(app):
            if number < index.file:
                continue
            start = index.size if number == index.file else 0
            data = self._read(app, number, start)
            end = data.rfind(b"\n") + 1
            if end < len(data):  # half a line of a process that ended while it wrote
                os.truncate(self._directory / app / str(number), start + end)
            for line in _lines(data[:end]):
                key = f"{line.server}/{line.instance}@{line.release}"
                index.last[key] = max(line.number, index.last.get(key, 0))
            index.file, index.size = number, start + end
        return index

    def _delete_oldest(self, app: str) -> None:
        for number in self._files(app)[: -(FILES - 1)]:
            (self._directory / app / str(number)).unlink(missing_ok=True)

    def _files(self, app: str) -> list[int]:
        directory = self._directory / app
        if not directory.is_dir():
            return []
        return sorted(int(path.name) for path in directory.iterdir() if path.name.isdecimal())

    def _read(self, app: str, number: int, start: int) -> bytes:
        try:
            with (self._directory / app / str(number)).open("rb") as file:
                file.seek(start)
                return file.read()
        except FileNotFoundError:
            return b""


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _lines(data: bytes) -> list[Lined]:
    return [msgspec.json.decode(line, type=Lined) for line in data.splitlines() if line]
