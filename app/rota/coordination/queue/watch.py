"""How full the queue is, for whoever asks often: counted at most every few seconds."""

import asyncio
import contextlib

from rota.errors import RotaError
from rota.store.jobs import Count, Jobs

FRESH = 15.0  # seconds for which a count is good
PATIENCE = 1.0  # seconds to wait for a new one


class Watch:
    """One question to the database at a time, and none that anybody waits for long."""

    def __init__(self, jobs: Jobs) -> None:
        """Count these jobs."""
        self.known: list[Count] | None = None  # None while it cannot be known
        self._jobs = jobs
        self._counted = -FRESH
        self._question: asyncio.Task[list[Count]] | None = None

    async def look(self) -> list[Count] | None:
        """Return the counts: at most FRESH seconds old, or None."""
        now = asyncio.get_running_loop().time()
        if now - self._counted < FRESH:
            return self.known
        if self._question is None:
            self._question = asyncio.create_task(self._jobs.counts(), name="queue.counts")
        question = self._question
        await asyncio.wait({question}, timeout=PATIENCE)
        if self._question is question:  # and nobody else has taken its answer meanwhile
            self.known = None
            if question.done():
                self._question = None
                with contextlib.suppress(RotaError):  # /health says why
                    self.known, self._counted = question.result(), now
        return self.known
