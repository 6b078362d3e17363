"""Artifacts on a server: fetched, kept a while after their last use, then deleted."""

import asyncio
import time

import structlog

from rota.agent.fetching import Fetching
from rota.agent.memory import AgentMemory
from rota.agent.units import Units, UnitsError

KEPT = 24 * 3600.0  # seconds after the last use

log = structlog.get_logger("rota.agent")


class Shelf:
    """Fetches what an order needs, and deletes what nothing has used for a day."""

    def __init__(self, memory: AgentMemory, units: Units, fetching: Fetching) -> None:
        """Keep archives beside the agent's other files."""
        self._memory = memory
        self._units = units
        self._fetching = fetching

    async def have(self, artifact: str, sha256: str, size: int) -> None:
        """Have an artifact unpacked here. Raises RefusedError, UnitsError, UnreachedError."""
        self._memory.note_use(sha256, artifact, time.time())
        if await self._units.unpack(sha256, size, None):
            return
        archive = await asyncio.to_thread(self._fetching.fetch, artifact, size)
        await self._units.unpack(sha256, size, archive)

    async def sweep(self, now: float | None = None) -> None:
        """Delete what no placement uses and none has used for a while."""
        moment = time.time() if now is None else now
        in_use = {each.sha256 for each in self._memory.placements.values()}
        for sha256, (artifact, used) in list(self._memory.used.items()):
            if sha256 in in_use or (0 <= moment - used < KEPT):
                continue
            try:
                await self._units.forget(sha256)
            except UnitsError as error:
                log.warning("artifact not deleted", artifact=artifact, reason=str(error))
                continue
            self._fetching.forget(artifact)
            self._memory.note_use(sha256, artifact, None)
            log.info("artifact deleted", artifact=artifact)
