"""A log that tells pages and webhooks of each act: the one place from which every act is told."""

from collections.abc import Sequence

import msgspec

from rota.coordination.bus.announcer import Announcer
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import DeliveryWaiting
from rota.tlog.frames import Position
from rota.tlog.log import Tlog
from rota.tlog.records import Logged
from rota.tlog.segments import Tail

TOPIC = "acts"


class TellingLog:
    """The `Tlog` seam around another one. It tells of an act once the act is durable."""

    def __init__(self, log: Tlog, bus: Bus) -> None:
        """Tell of what this log takes over this bus."""
        self._log = log
        self._announcer = Announcer(bus)

    async def append(self, entry: bytes) -> Logged:
        """Append an entry, and tell of it."""
        logged = await self._log.append(entry)
        self._tell(entry)
        return logged

    async def append_once(self, entries: Sequence[bytes], since: Position) -> list[Logged]:
        """Append what does not stand there yet, and tell of all: whoever ended before may not have."""
        logged = await self._log.append_once(entries, since)
        for entry in entries:
            self._tell(entry)
        return logged

    async def settle(self) -> Tail:
        """Return where the log ends, once all of it is durable."""
        return await self._log.settle()

    async def head(self) -> Tail:
        """Return where the log ends now."""
        return await self._log.head()

    async def close(self) -> None:
        """Let go."""
        await self._log.close()

    def _tell(self, entry: bytes) -> None:
        self._announcer.say(TOPIC, _kind(entry))
        self._announcer.publish(DeliveryWaiting())


class _Kind(msgspec.Struct):
    act: str


def _kind(entry: bytes) -> str:
    """Return an act's kind, nothing for an entry that no act of ours is."""
    try:
        return msgspec.json.decode(entry, type=_Kind).act
    except msgspec.MsgspecError:
        return ""
