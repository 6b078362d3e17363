"""Tasks that every process with their role runs, without a lock: their rows settle who does what."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from rota.errors import RotaError

# One that crashes rests before it is begun anew: this many seconds, doubling, unless it ran well before.
REST = 1.0
REST_MOST = 60.0
RAN_WELL = 60.0
LEAVE = 16.0  # seconds that a resident has to end once asked to

Resident = Callable[[asyncio.Event], Awaitable[None]]  # ends soon after the event is set

log = structlog.get_logger("rota.residents")


class Residents:
    """Runs each until asked to stop, and anew when it crashes."""

    def __init__(self) -> None:
        """Run nothing yet."""
        self._bodies: dict[str, Resident] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._until = 0.0

    def run(self, name: str, body: Resident) -> None:
        """Run `body` from `start` on."""
        self._bodies[name] = body

    def names(self) -> list[str]:
        """Return the names of all, sorted."""
        return sorted(self._bodies)

    def start(self) -> None:
        """Begin them all, in the background."""
        for name, body in self._bodies.items():
            self._tasks[name] = asyncio.create_task(self._live(name, body), name=name)

    def ask(self) -> None:
        """Ask them all to end; returns at once."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._until = asyncio.get_running_loop().time() + LEAVE

    async def stop(self) -> None:
        """Wait until all have ended, and cancel those that take too long."""
        self.ask()
        if not self._tasks:
            return
        left = max(0.0, self._until - asyncio.get_running_loop().time())
        _, late = await asyncio.wait(self._tasks.values(), timeout=left)
        for task in late:
            log.warning("task did not end in time", task=task.get_name())
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=1.0)

    async def _live(self, name: str, body: Resident) -> None:
        loop = asyncio.get_running_loop()
        crashes = 0
        while not self._stopping.is_set():
            began = loop.time()
            try:
                await body(self._stopping)
            except RotaError as error:
                log.error("task failed", task=name, reason=str(error))  # noqa: TRY400 - it says what to do
            except Exception:
                log.exception("task crashed", task=name)
            if self._stopping.is_set():
                return
            crashes = 1 if loop.time() - began >= RAN_WELL else crashes + 1
            rest = min(REST_MOST, REST * 2 ** (crashes - 1))
            log.warning("task rests", task=name, crashes=crashes, seconds=rest)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._stopping.wait()
