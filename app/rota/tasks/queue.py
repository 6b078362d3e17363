"""`queue.worker`: takes jobs, in every worker process."""

import asyncio

from rota.coordination.bus.bus import Bus
from rota.coordination.queue.kinds import Kinds
from rota.coordination.queue.queue import Queue
from rota.coordination.queue.worker import Tally, Worker
from rota.settings import Settings
from rota.tasks.kinds import KINDS


class QueueWorker:
    """Runs one worker after another, should one crash; what they did is counted together."""

    def __init__(self, settings: Settings, queue: Queue, bus: Bus, tally: Tally) -> None:
        """Take jobs of every kind that this process may run."""
        self._queue = queue
        self._bus = bus
        self._tally = tally
        self._kinds = Kinds.of(KINDS, primary=settings.server.primary)

    async def __call__(self, stopping: asyncio.Event) -> None:
        """Take jobs until told to stop."""
        await Worker(self._queue, self._kinds, self._bus, tally=self._tally).run(stopping)
