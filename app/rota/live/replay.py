"""What was told lately, for browsers that were away for a moment. No clock and no I/O of its own."""

import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

MOST = 1024  # events kept
OLDEST = 300.0  # seconds for which one is kept


@dataclass(frozen=True)
class Told:
    """One event: its number, its topic, the moment (in seconds of a steady clock), and its bytes."""

    number: int
    topic: str
    at: float
    data: bytes


class Replay:
    """Numbers events, and keeps the newest of them. Owned by the event loop.

    An id is PART-NUMBER. The part is random, so that an id of another process,
    or of this one before `forget`, is none that this one gave.
    """

    def __init__(self, most: int = MOST, oldest: float = OLDEST) -> None:
        """Keep so many events, for so many seconds."""
        self._most = most
        self._oldest = oldest
        self._part = secrets.token_hex(6)
        self._number = 0
        self._kept: deque[Told] = deque()

    @property
    def newest(self) -> str:
        """The id of the newest event, or of none yet: whoever has it has missed nothing."""
        return f"{self._part}-{self._number}"

    def add(self, topic: str, write: Callable[[str], bytes], now: float) -> Told:
        """Number an event, which `write` makes from its id, and keep it."""
        self._number += 1
        told = Told(self._number, topic, now, write(self.newest))
        self._kept.append(told)
        self._trim(now)
        return told

    def since(self, number: str, topics: frozenset[str], now: float) -> list[Told] | None:
        """Return what was told of these topics after the event with this id.

        None where that cannot be known: the id is none of ours, or what came
        after it is not all kept any more.
        """
        self._trim(now)
        part, _, digits = number.partition("-")
        if part != self._part or not (digits.isascii() and digits.isdecimal()) or len(digits) > 15:  # noqa: PLR2004 - digits of any number that we count to
            return None
        last = int(digits)
        first = self._kept[0].number if self._kept else self._number + 1
        if not first - 1 <= last <= self._number:
            return None
        return [told for told in self._kept if told.number > last and told.topic in topics]

    def forget(self) -> None:
        """Keep nothing, and know no id given until now: something was missed that cannot be told."""
        self._part = secrets.token_hex(6)
        self._number = 0
        self._kept.clear()

    def _trim(self, now: float) -> None:
        while self._kept and (len(self._kept) > self._most or now - self._kept[0].at > self._oldest):
            self._kept.popleft()
