"""`tlog.outbox`: workers' acts on their way into the log.

An act's bytes lie in its row. Before the first try the row notes where the log
ended; an append then happens only if the entry does not stand after that place,
and that is looked up under the log's own lock. So a process that ends at any
point, or wakes up late, leaves each act in the log once, and its row with one
index.
"""

from rota.acts.access import make_tlog
from rota.coordination.bus.broadcast import Resync, Subscription
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import ActWaiting, Topic
from rota.coordination.leader import Term
from rota.settings import Settings
from rota.store.database import Database
from rota.store.tlog import Outbox, Outgoing
from rota.tlog.frames import MOST_BODY, MOST_ENTRIES, Position

LOOK = 2.0  # seconds between two looks; a nudge shortens the wait
BATCH = 256


class Drain:
    """Appends what waits, in the order of the rows."""

    def __init__(self, settings: Settings, database: Database, bus: Bus) -> None:
        """Take acts from this database into this hub's log, nudged over this bus, and tell pages over it."""
        self._outbox = Outbox(database)
        self._tlog = make_tlog(settings, database, bus)
        self._bus = bus

    async def __call__(self, term: Term) -> None:
        """Drain until asked to stop."""
        with self._bus.subscribe(Topic.QUEUE) as nudges:
            while True:
                while await self.drain(term):
                    if term.stopping.is_set():
                        return
                if await term.pause(LOOK, _act_waits(nudges)):
                    return

    async def drain(self, term: Term) -> int:
        """Append one batch and write its indices back; return how many acts it had."""
        rows = await self._outbox.waiting(BATCH)
        if not rows:
            return 0
        fresh = [row.id for row in rows if row.since is None]
        if fresh:
            term.check()
            await self._outbox.begin(fresh, (await self._tlog.settle()).position, term.fence)
            rows = await self._outbox.waiting(BATCH)
        batch = _fitting([row for row in rows if row.since is not None])
        since = min((row.since for row in batch if row.since is not None), default=Position(0, 0, 0))
        term.check()
        found = await self._tlog.append_once([row.entry for row in batch], since)
        pairs = [(row.id, logged.index) for row, logged in zip(batch, found, strict=True)]
        await self._outbox.indexed(pairs, term.fence)
        return len(batch)


async def _act_waits(nudges: Subscription) -> None:
    """Wait until somebody says that an act waits, or may have said so."""
    while not isinstance(await nudges.next(), ActWaiting | Resync):
        pass


def _fitting(rows: list[Outgoing]) -> list[Outgoing]:
    """Return as many of the first rows as one frame of the log holds."""
    room, fitting = MOST_BODY, list[Outgoing]()
    for row in rows[:MOST_ENTRIES]:
        room -= len(row.entry) + 2
        if room < 0:
            break
        fitting.append(row)
    return fitting
