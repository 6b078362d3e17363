"""Singleton tasks, each running only while this process holds its lock."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import structlog

from rota.coordination.epoch import Fence
from rota.coordination.locks import Locks, SessionLostError
from rota.coordination.tenure import GONE, JITTER, ROUND, STOP, Tenure
from rota.errors import FencedError, RotaError

# A crashed task gives its lock back at once, so that a poisoned host does not
# keep it, and rests here: this many seconds, doubling, unless it ran well before.
REST = 1.0
REST_MOST = 60.0
RAN_WELL = 60.0

log = structlog.get_logger("rota.leader")


class Term:
    """What a led task is given: its fence, whether to stop, and the right to act."""

    def __init__(self, fence: Fence, tenure: Tenure) -> None:
        """Make the term of one gain of one lock."""
        self.fence = fence
        self.stopping = asyncio.Event()
        self.over = False
        self._tenure = tenure

    def check(self) -> None:
        """Call before each effect outside the database. Raises FencedError once trust has run out."""
        if self.over or not self._tenure.trusted(asyncio.get_running_loop().time()):
            raise FencedError(f"{self.fence.task}: this process no longer holds the lock")

    async def pause(self, seconds: float, until: Coroutine[Any, Any, None] | None = None) -> bool:
        """Wait so long, or until something has come; return True at once when the task is asked to stop."""
        waits = [asyncio.ensure_future(each) for each in (self.stopping.wait(), until) if each is not None]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return self.stopping.is_set()


LedTask = Callable[[Term], Awaitable[None]]


class State(StrEnum):
    """Where one singleton stands in this process."""

    STANDBY = "standby"
    LEADING = "leading"
    RESTING = "resting"  # crashed; not contended for until its backoff ends
    DONE = "done"  # ended by itself; not run again in this process


@dataclass
class _Singleton:
    """One task's standing. Owned by the leader's own loop."""

    name: str
    body: LedTask
    state: State = State.STANDBY
    term: Term | None = None
    runner: asyncio.Task[bool] | None = None
    began: float = 0.0
    crashes: int = 0
    rest_until: float = 0.0
    announced: bool = False
    failure: str = ""  # why it last failed, until it has ended well


class Leader:
    """Contends for locks, runs what it wins, stops what it loses.

    One loop owns the lock session; each led task runs in a task of its own.
    `generation` counts the sessions lost: a lock taken in an earlier one went
    with it.
    """

    def __init__(self, locks: Locks) -> None:
        """Lead nothing yet, through this session."""
        self.generation = 0
        self.tenure = Tenure()
        self._locks = locks
        self._singletons: dict[str, _Singleton] = {}
        self._loop_task: asyncio.Task[None] | None = None
        self._watch_task: asyncio.Task[None] | None = None
        self._resigning = False
        self._late = False
        self._lost = ""  # why the last session ended, until one stands again: an outage is told once

    def run(self, name: str, body: LedTask) -> None:
        """Run `body` whenever this process holds the lock named `name`, until it ends by itself."""
        self._singletons[name] = _Singleton(name, body)

    def leading(self) -> list[str]:
        """Return the names of the locks held here, sorted."""
        return sorted(s.name for s in self._singletons.values() if s.state is State.LEADING)

    def failing(self) -> dict[str, str]:
        """Return why, for each task that failed here and rests, or has just been begun anew."""
        now = asyncio.get_running_loop().time()
        return {s.name: s.failure for s in self._singletons.values() if s.failure and _unwell(s, now)}

    def epoch_of(self, name: str) -> int | None:
        """Return the epoch under which this process leads a task, None when it does not."""
        singleton = self._singletons.get(name)
        return singleton.term.fence.epoch if singleton and singleton.term else None

    def trust_left(self) -> float:
        """Return the seconds for which this process may still trust its locks."""
        return self.tenure.left(asyncio.get_running_loop().time())

    def start(self) -> None:
        """Begin to contend, in the background."""
        self._loop_task = asyncio.create_task(self._contend(), name="leader")
        self._watch_task = asyncio.create_task(self._watch(), name="leader.watch")

    async def resign(self) -> None:
        """Stop everything led here and give the locks back, so that another process takes over at once."""
        if self._resigning:
            return
        self._resigning = True
        for background in (self._loop_task, self._watch_task):
            await _cancelled(background)
        led = [s for s in self._singletons.values() if s.state is State.LEADING]
        await asyncio.gather(*(_stopped(singleton) for singleton in led))
        for singleton in led:
            _stand_by(singleton)
        await self._locks.close()
        self.tenure.end()
        if led:
            log.info("resigned", tasks=sorted(s.name for s in led))

    async def _contend(self) -> None:
        while True:
            try:
                await self._locks.open()
                self._late = False
                while True:
                    await self._round()
                    await self._locks.wait(_jittered(ROUND))
            except SessionLostError as error:
                self._lose(str(error))
            except Exception:
                # A fault of ours: whatever it was, this process leads nothing until it has begun anew.
                log.exception("contending crashed")
                self._lose("a fault of this program")
            await self._locks.close()
            await asyncio.sleep(_jittered(ROUND))

    async def _round(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._locks.probe()
        if self._late:
            raise SessionLostError("the database answered too late")
        self.tenure.renew(began)
        for singleton in self._singletons.values():
            if singleton.state is State.LEADING and singleton.runner and singleton.runner.done():
                await self._locks.release(singleton.name)
                _settle(singleton, loop.time())
        wanted = [s.name for s in self._singletons.values() if _contends(s, loop.time())]
        for fence in await self._locks.acquire(wanted) if wanted else ():
            self._lead(self._singletons[fence.task], fence)
        for name in wanted:
            _announce(self._singletons[name])
        self._lost = ""

    def _lead(self, singleton: _Singleton, fence: Fence) -> None:
        term = Term(fence, self.tenure)
        singleton.state, singleton.term, singleton.announced = State.LEADING, term, False
        singleton.began = asyncio.get_running_loop().time()
        singleton.runner = asyncio.create_task(_live(singleton, term), name=singleton.name)
        log.info("leading", task=singleton.name, generation=fence.generation, epoch=fence.epoch)

    def _lose(self, reason: str) -> None:
        led = self.leading()
        self.generation += 1
        self.tenure.end()
        if led or reason != self._lost:
            log.warning("lock session lost", reason=reason, stopped=led)
        self._lost = reason
        for singleton in self._singletons.values():
            if singleton.state is State.LEADING and _ended_well(singleton):
                _settle(singleton, asyncio.get_running_loop().time())  # before a round could see it
            elif singleton.state is State.LEADING:
                if singleton.runner is not None:
                    singleton.runner.cancel()
                _stand_by(singleton)

    async def _watch(self) -> None:
        """Stop what is led once trust has run out, though a probe still waits for its answer."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(max(0.05, self.tenure.left(loop.time())))
            if self.leading() and not self.tenure.trusted(loop.time()):
                self._late = True
                self._lose("no answer from the database in time")


async def _live(singleton: _Singleton, term: Term) -> bool:
    """Run a led task to its end; return whether it ended well."""
    try:
        await singleton.body(term)
    except RotaError as error:  # fenced, or the database is away: the message says it all
        log.warning("task stopped", task=singleton.name, reason=str(error))
        singleton.failure = str(error)
        return False
    except Exception as error:
        log.exception("task crashed", task=singleton.name)
        singleton.failure = f"a fault of this program: {type(error).__name__}; its journal says more"
        return False
    singleton.failure = ""
    return True


def _unwell(singleton: _Singleton, now: float) -> bool:
    if singleton.state is State.LEADING:
        return now - singleton.began < RAN_WELL
    return singleton.state is State.RESTING


def _settle(singleton: _Singleton, now: float) -> None:
    """Note that a task has ended and its lock was given back."""
    well, ran = _ended_well(singleton), now - singleton.began
    _stand_by(singleton)
    if well:
        singleton.state = State.DONE
        log.info("task ended", task=singleton.name)
        return
    singleton.crashes = 1 if ran >= RAN_WELL else singleton.crashes + 1
    rest = min(REST_MOST, REST * 2 ** (singleton.crashes - 1))
    singleton.state, singleton.rest_until = State.RESTING, now + rest
    log.warning("task rests", task=singleton.name, crashes=singleton.crashes, seconds=rest)


def _ended_well(singleton: _Singleton) -> bool:
    runner = singleton.runner
    return runner is not None and runner.done() and not runner.cancelled() and runner.result()


def _stand_by(singleton: _Singleton) -> None:
    if singleton.term is not None:
        singleton.term.over = True
    singleton.state, singleton.term = State.STANDBY, None


def _announce(singleton: _Singleton) -> None:
    if singleton.state is State.STANDBY and not singleton.announced:
        singleton.announced = True
        log.info("standing by", task=singleton.name)


def _contends(singleton: _Singleton, now: float) -> bool:
    if singleton.runner is not None and not singleton.runner.done():
        return False  # lost, cancelled, and not yet gone: never two of one task in one process
    if singleton.state is State.RESTING:
        return now >= singleton.rest_until
    return singleton.state is State.STANDBY


def _jittered(seconds: float) -> float:
    """Shorten a wait a little, never lengthen it: trust is reckoned on whole rounds."""
    return seconds * random.uniform(1 - JITTER, 1)  # noqa: S311 - spreads load, guards nothing


async def _stopped(singleton: _Singleton) -> None:
    """Ask a led task to stop; cancel it when it takes too long."""
    if singleton.runner is None or singleton.term is None:
        return
    singleton.term.stopping.set()
    _, late = await asyncio.wait({singleton.runner}, timeout=STOP)
    if late:
        await _cancelled(singleton.runner)


async def _cancelled(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task of ours and wait, for a moment at most, until it is gone."""
    if task is not None:
        task.cancel()
        await asyncio.wait({task}, timeout=GONE)
