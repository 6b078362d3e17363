"""`failover.probe` and `failover.web`: singleton tasks that tell a receiver what they do, and nothing else.

Of the scenario's build, never of the product. Every beat a task acts twice: at once, having checked that it
may, as the product's own tasks do; and a little later without looking again, from a thread. That is an effect
already under way: the only kind that a process can still have in hand when it wakes from a freeze.
"""

import asyncio
import contextlib
import itertools
import json
import os
import socket
import time

from rota.coordination.leader import LedTask, Term
from rota.roles import Role
from rota.settings import Settings
from rota.tasks.table import Parts, TaskEntry

RECEIVER = ("10.78.0.1", 8600)  # on the lab's own network, which no tunnel carries
BEAT = 0.1  # seconds between acts
LATE = 0.2  # seconds for which an effect is under way: at any moment there is one


class Probe:
    """Acts while it leads."""

    def __init__(self, settings: Settings) -> None:
        """Speak as this process."""
        self._holder = f"{settings.name}:{os.getpid()}"
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    async def __call__(self, term: Term) -> None:
        """Act until asked to stop, and say so once nothing is under way any more."""
        loop = asyncio.get_running_loop()
        numbers = itertools.count(1)
        under_way: set[asyncio.Future[None]] = set()
        self._say(term, "start", 0)
        while not await term.pause(BEAT):
            number = next(numbers)
            term.check()
            self._say(term, "act", number)
            late = loop.run_in_executor(None, self._say_late, term, number)
            under_way.add(late)
            late.add_done_callback(under_way.discard)
        if under_way:
            await asyncio.wait(under_way)
        self._say(term, "stop", next(numbers))

    def _say_late(self, term: Term, number: int) -> None:
        time.sleep(LATE)
        self._say(term, "late", number)

    def _say(self, term: Term, kind: str, number: int) -> None:
        act = {**term.fence._asdict(), "holder": self._holder, "kind": kind, "number": number}
        with contextlib.suppress(OSError):  # cut off: what cannot be sent has no effect
            self._socket.sendto(json.dumps(act).encode(), RECEIVER)


def _probe(parts: Parts) -> LedTask:
    return Probe(parts.settings)


ENTRIES = (
    TaskEntry("failover.probe", Role.WORKER, primary=False, body=_probe),
    TaskEntry("failover.web", Role.WEB, primary=False, body=_probe),
)
