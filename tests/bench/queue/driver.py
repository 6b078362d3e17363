"""What every peer in Python is driven by. Standard library only: peers live in an environment of their own.

A peer is a program with these commands, each one a process:

    setup       make its tables anew
    single N    enqueue N jobs one by one       prints {"seconds": …}
    bulk N      enqueue N jobs, 1000 at a time  prints {"seconds": …}
    trickle N   enqueue N jobs, one every 20 to 40 ms, each with the time
    worker      say READY, work until idle, print what was counted
    left        print how many jobs are left
"""

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable

BATCH = 1000  # jobs in one bulk insert
IDLE = 1.5  # seconds without a job after which a worker has ended
MOST = 15.0  # seconds of work that are measured at most

DSN = os.environ.get("BENCH_DSN", "")


class Counter:
    """Counts handler starts, the same way for everybody."""

    def __init__(self) -> None:
        self.count = 0
        self.first = self.last = 0.0
        self.pickups: list[float] = []
        self._over = False

    def hit(self, sent: float) -> None:
        """Count a start; `sent` is when the job was enqueued, 0 where that is not measured."""
        now = time.time()
        if self._over:
            return
        if not self.count:
            self.first = now
        self.last = now
        self.count += 1
        if sent:
            self.pickups.append(now - sent)
        elif now - self.first > MOST:
            self._over = True

    async def until_idle(self) -> None:
        """Say READY, wait until no more jobs come, and print what was counted."""
        print("READY", flush=True)
        before = time.process_time()
        while True:
            await asyncio.sleep(0.1)
            if self._over or (self.count and time.time() - self.last > IDLE):
                break
        cpu = time.process_time() - before
        say(count=self.count, first=self.first, last=self.last, pickups=self.pickups, cpu=cpu)


def say(**values: object) -> None:
    """Print one line for the bench."""
    print(json.dumps(values), flush=True)


async def timed(work: Callable[[], Awaitable[None]]) -> None:
    """Do something and print how long it took."""
    began = time.perf_counter()
    await work()
    say(seconds=time.perf_counter() - began)


async def trickle(count: int, enqueue: Callable[[float], Awaitable[object]]) -> None:
    """Enqueue jobs with pauses between them."""
    for _ in range(count):
        await enqueue(time.time())
        await asyncio.sleep(random.uniform(0.02, 0.04))  # noqa: S311


def batches(count: int) -> list[int]:
    """Return the sizes of the batches of a bulk insert."""
    return [min(BATCH, count - begun) for begun in range(0, count, BATCH)]


def arguments() -> tuple[str, int]:
    """Return the command and its number."""
    return sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
