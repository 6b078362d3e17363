"""Keeps what a build says, in pieces, where whoever deploys reads it as it comes."""

import asyncio

from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import Live
from rota.store.builds import BuildOutput
from rota.store.database import Database

PIECE = 16_384  # signs
MOST = 4 * 1024 * 1024  # signs of one build that are kept from its beginning
TAIL = 65_536  # and from its end
PAGES = "build:{}"  # the topic of the events that say there is more


class Output:
    """One attempt's output. Owned by the event loop; `flush` again and again, and once at the end."""

    def __init__(self, database: Database, bus: Bus, build: int) -> None:
        """Keep it in this database, and say on the bus that there is more."""
        self._database, self._bus, self._build = database, bus, build
        self._number = 0
        self._kept = 0
        self._text = ""
        self._tail = ""
        self._left_out = 0
        self._turn = asyncio.Lock()

    def say(self, data: bytes) -> None:
        """Take what the build wrote."""
        text = data.decode("utf-8", "replace").replace("\0", "\ufffd")
        room = max(0, MOST - self._kept)
        self._text += text[:room]
        self._kept += len(text)
        rest = text[room:]
        if rest:
            self._tail += rest
            self._left_out += max(0, len(self._tail) - TAIL)
            self._tail = self._tail[-TAIL:]

    async def flush(self) -> None:
        """Keep what has come since the last time."""
        async with self._turn:
            while self._text:
                piece, self._text = self._text[:PIECE], self._text[PIECE:]
                await self._keep(piece)

    async def end(self) -> None:
        """Keep the rest, with the end of what was too much."""
        await self.flush()
        if self._tail:
            if self._left_out:
                await self._keep(f"\n-----> {self._left_out} signs of output are left out here.\n")
            self._text, self._tail = self._tail, ""
            await self.flush()

    async def _keep(self, text: str) -> None:
        self._number += 1
        number = self._number
        await self._database.write(lambda tx: BuildOutput.say(tx, self._build, number, text))
        self._bus.publish(Live(PAGES.format(self._build), "output"))
