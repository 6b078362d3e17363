"""One worker process, with kinds of jobs that do what a test wants of them.

Usage: python -m tests.support.queue_peer FILE LEASE [CLOCK], with the settings
in the environment. Each attempt is a line in FILE: job, attempt, process. LEASE
and CLOCK are seconds; by CLOCK this process's wall clock is wrong.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from tests.support.settings import NO_SETTINGS

from rota import wiring
from rota.coordination.queue import kinds as rules
from rota.coordination.queue import worker as working
from rota.coordination.queue.kinds import Job, Kind, Kinds
from rota.coordination.queue.queue import TableQueue
from rota.coordination.queue.worker import Worker
from rota.logging import configure
from rota.settings import load
from rota.store.database import Database, Transaction


class Handlers:
    """What the kinds do. An effect is a row that cannot be written twice."""

    def __init__(self, database: Database, file: Path) -> None:
        self._database = database
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    async def effect(self, job: Job) -> None:
        """Wait as long as the payload says, then have an effect, in one transaction with the job's end."""
        self._note(job)
        for _ in range(int(job.payload.get("seconds", 0) * 100)):
            await asyncio.sleep(0.01)

        async def work(tx: Transaction) -> None:
            await tx.run("backups.begin", name=str(job.id), cause="operator")
            await job.finish(tx)

        await self._database.write(work)

    async def poison(self, job: Job) -> None:
        """End this process."""
        self._note(job)
        os.kill(os.getpid(), signal.SIGKILL)

    def _note(self, job: Job) -> None:
        os.write(self._file, f"{job.id} {job.attempt} {os.getpid()}\n".encode())


def bend_clock(seconds: float) -> None:
    """Make this process's wall clock wrong."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + int(seconds * 1e9)


async def main(file: str, lease: float) -> None:
    configure("warning")
    rules.FIRST, working.POLL, working.AGAIN = 0.2, 0.2, 0.2
    settings = load(file=NO_SETTINGS).settings
    database, bus = wiring.make_database(settings), wiring.make_bus(settings)
    await database.open()
    handlers = Handlers(database, Path(file))
    each = [Kind("effect", handlers.effect, lease=lease), Kind("poison", handlers.poison, lease=lease)]
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    bus.start()
    sys.stdout.write("working\n")
    sys.stdout.flush()
    await Worker(TableQueue(database, bus), Kinds.of(each, primary=False), bus).run(stopping)
    await bus.close()
    await database.close()


if __name__ == "__main__":
    if len(sys.argv) > 3:
        bend_clock(float(sys.argv[3]))
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
