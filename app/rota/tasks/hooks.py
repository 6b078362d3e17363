"""`hooks.worker`: makes deliveries from the log, and the first try of each."""

import asyncio
import contextlib

from rota.coordination.bus.broadcast import Subscription
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import Topic
from rota.coordination.leader import Term
from rota.hooks.delivering import Delivering
from rota.hooks.walk import Walk
from rota.store.database import Database
from rota.store.deliveries import Deliveries, Due

LOOK = 5.0  # seconds between two looks that nobody asked for
EACH = 4  # tries of one webhook at once, so that a slow receiver leaves room for the others
MOST = 64  # tries at once


class HooksWorker:
    """Leads the first tries of one hub."""

    def __init__(self, database: Database, bus: Bus, walk: Walk, delivering: Delivering) -> None:
        """Walk the log, and try what that makes."""
        self._deliveries = Deliveries(database)
        self._bus = bus
        self._walk = walk
        self._delivering = delivering

    async def __call__(self, term: Term) -> None:
        """Deliver until asked to stop. What is under way then stays new, and a successor tries it again."""
        try:
            await _Leading(self._bus, self._walk, self._delivering, self._deliveries, term).run()
        finally:
            await self._delivering.close()


class _Leading:
    """One term."""

    def __init__(
        self, bus: Bus, walk: Walk, delivering: Delivering, deliveries: Deliveries, term: Term
    ) -> None:
        self._bus = bus
        self._walk = walk
        self._delivering = delivering
        self._deliveries = deliveries
        self._term = term
        self._bell = asyncio.Event()
        self._under_way: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        with self._bus.subscribe(Topic.DELIVERIES) as nudges:
            listening = [
                loop.create_task(self._hear(nudges), name="hooks.nudges"),
                loop.create_task(self._ring_at_the_end(), name="hooks.stop"),
            ]
            try:
                while not self._term.stopping.is_set():
                    self._bell.clear()
                    more = await self._walk.step(self._term.fence)
                    await self._begin()
                    if not more:
                        await self._rest()
            finally:
                tasks = [*listening, *self._under_way.values()]
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    async def _begin(self) -> None:
        """Begin a try of each that waits, as far as there is room; raise what one that ended raised."""
        for delivery, task in list(self._under_way.items()):
            if task.done():
                del self._under_way[delivery]
                task.result()
        for due in await self._deliveries.waiting(EACH, MOST):
            if due.id not in self._under_way and len(self._under_way) < MOST:
                task = asyncio.create_task(self._try(due), name="hooks.try")
                self._under_way[due.id] = task
                task.add_done_callback(lambda _: self._bell.set())

    async def _try(self, due: Due) -> None:
        self._term.check()
        await self._delivering.first(due, self._term.fence)

    async def _rest(self) -> None:
        """Wait for a nudge, for a try to end, or until it is time to look."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK):
                await self._bell.wait()

    async def _hear(self, nudges: Subscription) -> None:
        async for _ in nudges:
            nudges.skip()
            self._bell.set()

    async def _ring_at_the_end(self) -> None:
        await self._term.stopping.wait()
        self._bell.set()
