"""Takes jobs and runs them: what `queue.worker` does in every worker process.

One loop speaks to the queue: each of its turns settles what has ended and
claims what there is room for, in one transaction. Slots run handlers; quick
ones follow one another in a slot without a task of their own. A keeper renews
leases and ends attempts that lost theirs or take too long.
"""

import asyncio
import contextlib
import random
import secrets
from collections import Counter, deque

import structlog

from rota.coordination.bus.broadcast import Resync, Subscription
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import Event, JobWaiting, Topic
from rota.coordination.queue.attempt import Attempt, Stop, described
from rota.coordination.queue.job import Claimed, PayloadError, PutBack, decode
from rota.coordination.queue.kinds import Kind, Kinds, after_failure, without_trying
from rota.coordination.queue.pace import Pace
from rota.coordination.queue.queue import Queue, Settled
from rota.errors import BusyError, RotaError, UnreachableError

SLOTS = 16  # handlers at once
POLL = 2.0  # seconds between two looks at the queue that nobody asked for
AGAIN = 2.0  # seconds until the next try when the database is away
RENEWALS = 5  # in the time of one lease
TICK = 1.0  # seconds between two looks at leases, less where a kind's lease is short
IDLE = 1.0  # seconds that a job may wait in a worker that has no slot for it; then others may have it
HERD = 0.02  # seconds over which the processes that find nothing spread their looks
MISSES = 3  # nudges in a row that led to nothing, after which a process is one of a herd
LEAVE = 15.0  # seconds that handlers have to end when their worker stops; the unit allows more

Tally = Counter[tuple[str, str]]  # (kind, outcome) → attempts

log = structlog.get_logger("rota.queue")


class Worker:
    """One process's part in the work. Owned by the event loop; runs once."""

    def __init__(
        self, queue: Queue, kinds: Kinds, bus: Bus, slots: int = SLOTS, tally: Tally | None = None
    ) -> None:
        """Take jobs of these kinds, so many at once, and count what becomes of them."""
        self.id = secrets.token_hex(8)
        self.tally: Tally = Counter() if tally is None else tally
        self._queue = queue
        self._kinds = kinds
        self._bus = bus
        self._slots = slots
        self._pace = Pace(slots)
        self._waiting: deque[tuple[Claimed, float]] = deque()  # claimed, not begun; and when
        self._running: set[Attempt] = set()
        self._settled = Settled()
        self._bell = asyncio.Event()  # something for the next turn
        self._supply = asyncio.Event()  # something for the slots
        self._look = True  # there may be jobs to claim
        self._nudged = False
        self._misses = 0
        self._ended = 0  # attempts since the last turn
        self._spent = 0.0  # seconds that they took together
        self._poll_at = 0.0
        self._away = ""  # why the database cannot be reached: an outage is told once

    @property
    def in_hand(self) -> int:
        """How many jobs are claimed here, begun or not."""
        return len(self._waiting) + len(self._running)

    async def run(self, stopping: asyncio.Event) -> None:
        """Take jobs until told to stop, then end within LEAVE seconds, losing none."""
        loop = asyncio.get_running_loop()
        with self._bus.subscribe(Topic.QUEUE) as nudges:
            background = [
                loop.create_task(self._ring(stopping), name="queue.stop"),
                loop.create_task(self._hear(nudges), name="queue.nudges"),
                loop.create_task(self._keep(), name="queue.keeper"),
                *(loop.create_task(self._slot(), name="queue.slot") for _ in range(self._slots)),
            ]
            turning = loop.create_task(self._turn_until(stopping), name="queue.turns")
            try:
                # A part of this that crashes ends the whole, which is then begun anew.
                await asyncio.wait({turning, *background[1:]}, return_when=asyncio.FIRST_COMPLETED)
                for part in (turning, *background):
                    if part.done():
                        part.result()
            finally:
                for part in (turning, *background):
                    part.cancel()
                await asyncio.wait({turning, *background})

    async def _turn_until(self, stopping: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        while not stopping.is_set():
            self._look = self._look or loop.time() >= self._poll_at
            room = self._pace.room(self.in_hand) if self._look else 0
            if room or self._settled:
                await self._turn(room)
            else:
                await self._rest()
        await self._leave()

    async def _turn(self, room: int) -> None:
        """Settle what has ended and claim what there is room for."""
        loop = asyncio.get_running_loop()
        settled, self._settled = self._settled, Settled()
        nudged = self._nudged and room > 0
        began = loop.time()
        if room:
            self._look = self._nudged = False
            self._poll_at = began + POLL * random.uniform(0.9, 1.1)  # noqa: S311 - spreads load
        try:
            turn = await self._queue.turn(self.id, settled, self._kinds, room)
        except (UnreachableError, BusyError) as error:
            await self._outage(settled, str(error))
            return
        self._away = ""
        if turn.lost and not settled.again:
            self.tally["", "lost"] += turn.lost
            log.warning("results came too late and count for nothing", jobs=turn.lost)
        self._pace.note(self._ended, self._spent)
        self._ended, self._spent = 0, 0.0
        if room:
            self._took(turn.claimed, room, began, nudged=nudged)

    async def _outage(self, settled: Settled, reason: str) -> None:
        """Keep what could not be said, to say it again: saying it twice is saying it once."""
        if reason != self._away:
            log.warning("the queue cannot be reached", reason=reason)
        self._away = reason
        self._settled.done[:0] = settled.done
        self._settled.back[:0] = settled.back
        self._settled.again = bool(settled)
        self._look = True
        await asyncio.sleep(AGAIN * random.uniform(0.8, 1))  # noqa: S311 - spreads load, guards nothing

    def _took(self, claimed: list[Claimed], room: int, began: float, *, nudged: bool) -> None:
        """Hand jobs to the slots, and decide whether to look again at once."""
        again = any(job.attempts > 1 for job in claimed)  # such rows come one at a time
        if len(claimed) >= room or again:
            self._look = True
        else:
            self._pace.forget()
        if nudged:
            self._misses = 0 if claimed else self._misses + 1
        for job in claimed:
            for attempt in self._running:
                if attempt.id == job.id:
                    attempt.end(Stop.LOST)  # ours once, lost, and ours again
            verdict = without_trying(self._kinds, job)
            if verdict is not None:
                self._put_back(job, verdict)
            else:
                self._waiting.append((job, began))
        if self._waiting:
            self._supply.set()

    async def _rest(self) -> None:
        """Wait for something to do, or until it is time to look. With every slot taken, only for a slot."""
        until = None if self._look else self._poll_at
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._bell.wait()
        self._bell.clear()

    async def _leave(self) -> None:
        """Give back what was not begun, and let what was begun end."""
        loop = asyncio.get_running_loop()
        end = loop.time() + LEAVE
        self._give_back(0.0)
        while self._running and loop.time() < end:
            if self._settled:
                await self._turn(0)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(end):
                    await self._bell.wait()
            self._bell.clear()
        for attempt in self._running:
            attempt.end(Stop.LEAVING)
        if self._running:
            log.warning("jobs are left to their leases", jobs=sorted(attempt.id for attempt in self._running))
        if self._settled:
            await self._turn(0)

    async def _slot(self) -> None:
        """Run handlers one after the other."""
        loop = asyncio.get_running_loop()
        while True:
            while not self._waiting:
                self._supply.clear()
                await self._supply.wait()
            claimed, began = self._waiting.popleft()
            now = loop.time()
            await self._attempt(claimed, self._kinds.known[claimed.kind], now, began)
            self._ended += 1
            self._spent += loop.time() - now
            self._bell.set()

    async def _attempt(self, claimed: Claimed, kind: Kind, now: float, leased: float) -> None:
        """Make one attempt, and note how it ended."""
        attempt = Attempt(claimed, kind, self._queue, self.id, now, leased, asyncio.current_task())
        self._running.add(attempt)
        error = ""
        try:
            attempt.payload = decode(claimed.payload)
            await kind.handler(attempt)
        except asyncio.CancelledError as cancelled:
            if attempt.was_cancelled():
                raise
            error = described(cancelled)  # the keeper's doing, or the handler's own
        except (PayloadError, RotaError) as known:  # the message says it all
            error = described(known)
            log.warning("attempt failed", kind=kind.name, job=claimed.id, reason=error)
        except Exception as unknown:  # whatever a handler does, its worker goes on
            log.exception("attempt failed", kind=kind.name, job=claimed.id, attempt=claimed.attempts)
            error = described(unknown)
        finally:
            self._running.discard(attempt)
        attempt.settle()
        self._note(attempt, error)

    def _note(self, attempt: Attempt, error: str) -> None:
        """Note an attempt's end for the next turn."""
        claimed, kind = attempt.claimed, attempt.kind
        if attempt.finished:
            self.tally[kind.name, "done"] += 1
        elif attempt.stop in (Stop.LOST, Stop.LEAVING):
            self.tally[kind.name, "left"] += 1
        elif attempt.stop is Stop.LATE or error:
            limit = f"ended after {kind.limit:g} s: {Stop.LATE.value}"
            self._put_back(claimed, after_failure(kind, claimed, limit if attempt.stop else error))
        else:
            self.tally[kind.name, "done"] += 1
            self._settled.done.append(claimed)

    def _put_back(self, claimed: Claimed, verdict: PutBack) -> None:
        self.tally[claimed.kind, "dead" if verdict.dead else "failed"] += 1
        if verdict.dead:
            log.warning("job is dead", kind=claimed.kind, job=claimed.id, reason=verdict.error)
        self._settled.back.append(verdict)
        self._bell.set()

    def _give_back(self, older_than: float) -> None:
        """Let others have what waits here for a slot."""
        now = asyncio.get_running_loop().time()
        kept = deque((job, began) for job, began in self._waiting if now - began < older_than)
        given = [job for job, began in self._waiting if now - began >= older_than]
        self._waiting = kept
        for job in given:
            self.tally[job.kind, "given back"] += 1
            self._settled.back.append(PutBack(job.id, job.attempts, counted=False))
        if given:
            self._pace.forget()
            self._bell.set()

    async def _keep(self) -> None:
        """Look after everything in hand, again and again."""
        loop = asyncio.get_running_loop()
        tick = min(TICK, self._kinds.shortest_lease / RENEWALS / 2)
        renewal: asyncio.Task[None] | None = None
        while True:
            await asyncio.sleep(tick)
            self._give_back(IDLE)
            for attempt in self._running:
                if loop.time() - attempt.since >= attempt.kind.limit:
                    attempt.end(Stop.LATE)
                elif loop.time() - attempt.leased >= attempt.kind.lease:
                    attempt.end(Stop.LOST)  # by our own clock, though nobody could tell us
            if renewal is None or renewal.done():
                due = [each for each in self._running if _renewable(each, loop.time() + tick)]
                renewal = loop.create_task(self._renew(due), name="queue.renewal") if due else None

    async def _renew(self, attempts: list[Attempt]) -> None:
        """Renew leases; end those attempts whose lease is gone."""
        began = asyncio.get_running_loop().time()
        try:
            kept = await self._queue.renew(self.id, [(each.claimed, each.kind.lease) for each in attempts])
        except (UnreachableError, BusyError) as error:
            log.warning("leases cannot be renewed", jobs=len(attempts), reason=str(error))
            return
        for attempt in attempts:
            if attempt.id in kept:
                attempt.leased = began
            elif attempt in self._running and not attempt.finished:
                log.warning("lease lost", kind=attempt.kind.name, job=attempt.id)
                attempt.end(Stop.LOST)

    async def _hear(self, nudges: Subscription) -> None:
        """Look when somebody says that a job waits; in a herd, not all at the same moment."""
        async for heard in nudges:
            if not self._concerns(heard):
                continue
            if self._misses >= MISSES and not isinstance(heard, Resync):
                await asyncio.sleep(random.uniform(0, HERD))  # noqa: S311 - spreads load, guards nothing
                nudges.skip()
            self._look = self._nudged = True
            self._bell.set()

    def _concerns(self, heard: Event | Resync) -> bool:
        """Tell whether there may be something to claim."""
        if isinstance(heard, JobWaiting):
            return heard.kind not in self._kinds.barred
        return isinstance(heard, Resync)

    async def _ring(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self._bell.set()


def _renewable(attempt: Attempt, now: float) -> bool:
    return attempt.stop is None and now - attempt.leased >= attempt.kind.lease / RENEWALS
