"""Who is in which room in this process, and what was chosen there. No clock and no I/O of its own."""

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

MOST_CHOICES = 50  # kept of one room
MOST_ROOMS = 500  # whose choices are kept


class Choice(StrEnum):
    """What one may choose to do about a server that is lost, or a deploy that has halted."""

    WAIT = "wait"
    DRAIN = "drain"
    REMOVE = "remove"


class Chosen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One choice: who made it, when (microseconds since 1970), and the entry of the log that says so."""

    choice: Choice
    by: str
    at: int
    entry: int


class Room(msgspec.Struct, frozen=True):
    """One room as a viewer sees it: who is here, and what was chosen, oldest first."""

    name: str
    present: list[str]
    choices: list[Chosen]


@dataclass
class _Room:
    present: "Counter[str]" = field(default_factory=Counter)
    choices: "deque[Chosen]" = field(default_factory=lambda: deque(maxlen=MOST_CHOICES))


class Rooms:
    """The rooms of one process. Owned by the event loop.

    Choices are kept also while nobody is here, for the newcomer; of too many
    rooms the one without viewers that was quiet for longest is forgotten.
    """

    def __init__(self) -> None:
        """Know no room."""
        self._rooms: OrderedDict[str, _Room] = OrderedDict()

    def join(self, room: str, who: str) -> bool:
        """Let a viewer in; return whether that changes who is present. Somebody may be here twice."""
        present = self._room(room).present
        present[who] += 1
        return present[who] == 1

    def leave(self, room: str, who: str) -> bool:
        """Let a viewer go; return whether that changes who is present."""
        present = self._room(room).present
        present[who] -= 1
        if present[who] > 0:
            return False
        del present[who]
        return True

    def choose(self, room: str, chosen: Chosen) -> None:
        """Keep a choice."""
        self._room(room).choices.append(chosen)

    def occupied(self, room: str) -> bool:
        """Tell whether anybody is here."""
        found = self._rooms.get(room)
        return found is not None and bool(found.present)

    def look(self, room: str) -> Room:
        """Return the room as it is."""
        found = self._rooms.get(room) or _Room()
        return Room(room, sorted(found.present), list(found.choices))

    def names(self) -> list[str]:
        """Return the rooms that somebody is in, sorted."""
        return sorted(name for name, room in self._rooms.items() if room.present)

    def _room(self, name: str) -> _Room:
        found = self._rooms.setdefault(name, _Room())
        self._rooms.move_to_end(name)
        if len(self._rooms) > MOST_ROOMS:
            empty = next(
                (other for other, room in self._rooms.items() if not room.present and other != name), None
            )
            if empty is not None:
                del self._rooms[empty]
        return found
