"""What travels between processes: one event with its origin and its number. Pure functions and values."""

from collections import OrderedDict
from enum import Enum

import msgspec

from rota.coordination.bus.events import AnyEvent, Event

MOST = 7999  # bytes of a payload that PostgreSQL takes: one less than the 8000 of its manual
ORIGINS = 1000  # processes remembered; a hub has some dozens, and each restart is a new one


class Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One payload: origin (random for each process), number (from 1, one by one), event."""

    o: str
    n: int
    e: msgspec.Raw


_ENVELOPE = msgspec.json.Decoder(Envelope)
_EVENT: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def pack(event: Event) -> bytes:
    """Return an event as JSON. Raises ValueError for text that is no Unicode, as half a surrogate pair."""
    try:
        return msgspec.json.encode(event)
    except UnicodeEncodeError as error:
        raise ValueError(f"{type(event).__name__} holds text that cannot be sent: {error.reason}") from error


def seal(origin: str, number: int, packed: bytes) -> str:
    """Return the payload for an event that is packed already."""
    return msgspec.json.encode(Envelope(origin, number, msgspec.Raw(packed))).decode()


def fitting(event: Event, origin: str, number: int) -> bytes | None:
    """Return the event as it may travel, cut where its type allows it; None where it may not at all."""
    packed = pack(event)
    room = MOST - len(seal(origin, number, b"").encode())
    if len(packed) <= room:
        return packed
    return _cut(event, room) if event.cuttable else None


def _cut(event: Event, room: int) -> bytes | None:
    """Return the event with as much of its cuttable text as there is room for."""
    text = getattr(event, event.cuttable)
    least, most = -1, len(text)  # the longest known to fit, the shortest known not to
    best = None
    while most - least > 1:
        middle = (least + most) // 2
        packed = pack(msgspec.structs.replace(event, **{event.cuttable: text[:middle], "cut": True}))
        if len(packed) <= room:
            least, best = middle, packed
        else:
            most = middle
    return best


def unseal(payload: str) -> Envelope:
    """Read an envelope. Raises ValueError for what is none."""
    try:
        return _ENVELOPE.decode(payload.encode())
    except msgspec.MsgspecError as error:
        raise ValueError(f"not an envelope of this program: {error}") from error


def unpack(packed: msgspec.Raw) -> AnyEvent:
    """Read an event. Raises ValueError for one that this program does not know, as a newer one may send."""
    try:
        return _EVENT.decode(packed)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not an event of this program: {error}") from error


class Heard(Enum):
    """What an event's number says of it."""

    NEXT = "next"
    AFTER_GAP = "after a gap"
    AGAIN = "again"


class Numbers:
    """The newest number heard from each origin: finds gaps, and refuses doubles."""

    def __init__(self) -> None:
        """Start having heard nobody."""
        self._last: OrderedDict[str, int] = OrderedDict()
        self._unsure: set[str] = set()

    def hear(self, origin: str, number: int) -> Heard:
        """Take note of a number. The first from an origin is taken as it comes."""
        last = self._last.get(origin)
        if last is not None and number <= last:
            return Heard.AGAIN
        gap = last is not None and number != last + 1 and origin not in self._unsure
        self._last[origin] = number
        self._last.move_to_end(origin)
        self._unsure.discard(origin)
        if len(self._last) > ORIGINS:
            forgotten, _ = self._last.popitem(last=False)
            self._unsure.discard(forgotten)
        return Heard.AFTER_GAP if gap else Heard.NEXT

    def forgive(self) -> None:
        """Count the next gap of each origin as known already: everybody has been told to look."""
        self._unsure.update(self._last)
