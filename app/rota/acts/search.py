"""The log as a list of acts, newest first: what is signed, and before it what is not yet. It blocks."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from rota.acts.act import Act, read_act
from rota.errors import MalformedError
from rota.tlog.disk import Disk
from rota.tlog.recent import recent
from rota.tlog.tiles import WIDTH
from rota.tlog.view import AbsentError, View

ROWS = 50  # of one page
BUNDLES = 20  # of WIDTH entries each: what one search reads at most


@dataclass(frozen=True)
class Wanted:
    """What is looked for: how a kind begins, and what an actor, and the whole entry, contain."""

    kind: str = ""
    actor: str = ""
    text: str = ""

    def fits(self, act: Act | None, entry: bytes) -> bool:
        """Tell whether an entry is looked for. What is no act of ours has only its text."""
        if act is None:
            named = not self.kind and not self.actor
        else:
            named = act.kind.startswith(self.kind) and self.actor.casefold() in act.actor.casefold()
        return named and self.text.casefold() in entry.decode(errors="replace").casefold()


@dataclass(frozen=True)
class Found:
    """One entry. `signed` is whether a checkpoint holds it, so that it can be proved."""

    index: int
    act: Act | None
    signed: bool

    @property
    def at(self) -> datetime | None:
        """When the act was decided, by the clock of whoever decided it."""
        return datetime.fromtimestamp(self.act.at / 1_000_000, UTC) if self.act else None


@dataclass(frozen=True)
class Page:
    """What one search found; `before` is where to go on, None at the log's beginning."""

    found: list[Found]
    size: int  # of the newest checkpoint
    before: int | None


class Acts:
    """The acts of one log."""

    def __init__(self, disk: Disk, view: View) -> None:
        """Read these files."""
        self._disk = disk
        self._view = view

    def search(self, wanted: Wanted, before: int | None = None, rows: int = ROWS) -> Page:
        """Return the newest that are looked for, of those before an index. Raises OSError, TlogError.

        One search reads a bounded number of entries, and may find nothing in them.
        """
        size = 0
        with suppress(AbsentError):
            size = self._view.checkpoint()[0].size
        found: list[Found] = []
        if before is None:
            fresh = recent(self._disk, size, WIDTH)
            found += self._fitting(wanted, iter(fresh), signed=False)
        oldest = min(size if before is None else before, size)
        last = oldest
        for number in range((oldest - 1) // WIDTH, max(-1, (oldest - 1) // WIDTH - BUNDLES), -1):
            if len(found) > rows:
                break
            entries = self._view.entries(number, size)[: oldest - number * WIDTH]
            last = number * WIDTH
            found += self._fitting(wanted, reversed(list(enumerate(entries, last))), signed=True)
        if len(found) > rows:
            found = found[:rows]
            last = found[-1].index
        return Page(found, size, last if 0 < last <= size else None)

    def _fitting(self, wanted: Wanted, entries: Iterator[tuple[int, bytes]], *, signed: bool) -> list[Found]:
        fitting = []
        for index, entry in entries:
            act = _act(entry)
            if wanted.fits(act, entry):
                fitting.append(Found(index, act, signed))
        return fitting


def _act(entry: bytes) -> Act | None:
    try:
        return read_act(entry)
    except MalformedError:
        return None
