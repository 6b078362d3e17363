"""`queue.worker`: takes jobs, in every worker process."""

import asyncio

from rota.coordination.queue.kinds import Kinds
from rota.coordination.queue.worker import Worker
from rota.tasks.kinds import every_kind
from rota.tasks.parts import Parts


class QueueWorker:
    """Runs one worker after another, should one crash; what they did is counted together."""

    def __init__(self, parts: Parts) -> None:
        """Take jobs of every kind that this process may run."""
        self._parts = parts

    async def __call__(self, stopping: asyncio.Event) -> None:
        """Take jobs until told to stop."""
        parts, delivering = self._parts, self._parts.delivering()
        kinds = Kinds.of(every_kind(parts, delivering), primary=parts.settings.server.primary)
        try:
            await Worker(parts.queue, kinds, parts.bus, tally=parts.tally).run(stopping)
        finally:
            await delivering.close()
