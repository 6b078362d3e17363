"""One line of an app's output, and how lines are found in what it writes."""

from dataclasses import dataclass

import msgspec

LONGEST = 16_384  # bytes of a line; what is longer is cut, and says so
UNKNOWN = -1  # lines lost before this one, when nobody could count them


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A line as its reader numbered it, from 1 for each copy of an instance.

    `at` is in microseconds since 1970, by the server's clock. `dropped` counts
    the lines that were read and lost right before this one, UNKNOWN where the
    reader was ended and nobody counted.
    """

    number: int
    at: int
    text: str
    dropped: int = 0
    cut: bool = False


@dataclass(frozen=True)
class Line:
    """A line without its end, and whether it was longer."""

    data: bytes
    cut: bool = False


class Cutter:
    """Finds lines in bytes that come in any pieces. It never holds more than a line and a piece."""

    def __init__(self) -> None:
        """Begin at the beginning of a line."""
        self._begun = bytearray()
        self._too_long = False  # the rest of the line is passed over

    def feed(self, data: bytes) -> list[Line]:
        """Return the lines that these bytes complete."""
        *complete, rest = data.split(b"\n")
        found = []
        for part in complete:
            found.append(self._line(part))
            self._begun.clear()
            self._too_long = False
        self._keep(rest)
        return found

    def end(self) -> list[Line]:
        """Return the line that was begun and will not be completed, if any."""
        if not self._begun:
            return []
        line = Line(bytes(self._begun), self._too_long)
        self._begun.clear()
        self._too_long = False
        return [line]

    def _line(self, part: bytes) -> Line:
        if not self._begun and not self._too_long and len(part) <= LONGEST:
            return Line(part.removesuffix(b"\r"))
        self._keep(part)
        whole = bytes(self._begun)
        return Line(whole if self._too_long else whole.removesuffix(b"\r"), self._too_long)

    def _keep(self, part: bytes) -> None:
        room = LONGEST - len(self._begun)
        if len(part) > room:
            self._too_long = True
        self._begun += part[: max(0, room)]
