"""The bus of a cluster: PostgreSQL's LISTEN and NOTIFY.

Two sessions of the process's own, outside the pool. One listens and does
nothing else. The other sends, in transactions of its own: a transaction that
writes and notifies commits alone in the whole cluster.
"""

import asyncio
import contextlib
import random
import secrets
from collections import deque
from functools import partial

import psycopg
import structlog

from rota.coordination.bus.broadcast import Broadcast, Subscription
from rota.coordination.bus.bus import BusState
from rota.coordination.bus.envelope import Heard, Numbers, fitting, seal, unpack, unseal
from rota.coordination.bus.events import Event, Topic
from rota.coordination.keys import channel
from rota.coordination.locks import SessionLostError
from rota.coordination.session import Session
from rota.store.database import Transaction
from rota.store.postgres_connection import Address, explain

WAITING = 4096  # events that may wait to be sent; one more is dropped for other processes
BATCH = 100  # events sent in one statement
QUIET = 5.0  # seconds after which the listening session is asked whether it still stands
ANSWER = 5.0  # seconds within which it must answer
RETRY = 2.0  # seconds between two tries to connect, shortened a little at random
FLUSH = 0.5  # seconds that a stop gives to what waits to be sent
WARN = 10.0  # seconds between two warnings of one kind

# Nobody waits for a notification to be on disk.
_SENDING = {"synchronous_commit": "off", "statement_timeout": "5s"}

_NOTIFY = """
SELECT count(pg_notify(told.channel, told.payload)) AS sent
FROM unnest(%s::text[], %s::text[]) AS told (channel, payload)
"""

# That the connection answers is not enough: the registration itself must be there.
_PROBE = """
SELECT (SELECT count(*) FROM pg_listening_channels() AS heard WHERE heard = ANY (%s::text[])) AS registered,
       pg_notification_queue_usage() AS usage
"""

log = structlog.get_logger("rota.bus")


class NotifyBus:
    """The `Bus` seam on PostgreSQL."""

    def __init__(self, address: Address) -> None:
        """Carry between the processes of one hub, through an address without a pooler."""
        self._origin = secrets.token_hex(8)
        self._channels = {topic: channel(address.schema, topic) for topic in Topic}
        self._broadcast = Broadcast()
        self._state = BusState()
        self._listening = Session(address, "bus", ANSWER)
        self._sending = Session(address, "bus", ANSWER)
        self._numbers = Numbers()
        self._number = 0
        self._outbox: deque[tuple[str, str]] = deque()  # (channel, payload)
        self._bell = asyncio.Event()
        self._drained = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._warned: dict[str, float] = {}
        self._lost = ""  # why the last session ended, until one stands again: an outage is told once
        self._stood = False

    @property
    def state(self) -> BusState:
        """The counters."""
        self._state.waiting = len(self._outbox)
        return self._state

    @property
    def pid(self) -> int | None:
        """The backend of the listening session, None without one."""
        return self._listening.pid

    def start(self) -> None:
        """Begin to listen and to send."""
        self._tasks = [
            asyncio.create_task(self._listen(), name="bus.listen"),
            asyncio.create_task(self._send(), name="bus.send"),
        ]

    def publish(self, event: Event, after: Transaction | None = None) -> None:
        """Deliver here and queue for the others, at once or after the commit."""
        packed = fitting(event, self._origin, self._number + 1)
        if after is not None:
            after.after_commit(partial(self.publish, event))
            return
        self._state.published += 1
        self._broadcast.deliver(event)
        if packed is None:
            self._state.kept += 1
            log.warning("event too long for other processes", topic=event.on, type=type(event).__name__)
            return
        # A dropped event uses up its number, so that the others see the gap.
        self._number += 1
        if len(self._outbox) >= WAITING:
            self._state.dropped += 1
            self._warn("event dropped for other processes", reason=f"{WAITING} wait to be sent")
            return
        self._outbox.append((self._channels[event.on], seal(self._origin, self._number, packed)))
        self._drained.clear()
        self._bell.set()

    def subscribe(self, topic: Topic) -> Subscription:
        """Subscribe."""
        return self._broadcast.subscribe(topic)

    async def close(self) -> None:
        """Send what waits while the sender is well, and end."""
        if self._outbox and self._sending.pid is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH):
                    await self._drained.wait()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=FLUSH)
        self._listening.abandon()
        self._sending.abandon()
        self._state.connected = False

    async def _send(self) -> None:
        while True:
            try:
                await self._sending.open(_SENDING)
                while True:
                    await self._send_some()
            except SessionLostError as error:
                log.debug("bus cannot send", reason=str(error))  # the listener tells of the outage
            except Exception:
                log.exception("sending events crashed")
            self._sending.abandon()
            await asyncio.sleep(_jittered(RETRY))

    async def _send_some(self) -> None:
        """Send one batch. What fails is sent again with the same numbers: the others hear it once."""
        while not self._outbox:
            self._bell.clear()
            await self._bell.wait()
        batch = [self._outbox[index] for index in range(min(BATCH, len(self._outbox)))]
        await self._sending.one(_NOTIFY, [told[0] for told in batch], [told[1] for told in batch])
        for _ in batch:
            self._outbox.popleft()
        if not self._outbox:
            self._drained.set()

    async def _listen(self) -> None:
        while True:
            try:
                await self._listening.open({})
                await self._listening.bounded(self._register())
                self._connected()
                while True:
                    await self._hear_for(QUIET)
                    await self._probe()
            except SessionLostError as error:
                self._disconnected(str(error))
            except Exception:
                log.exception("listening crashed")
                self._disconnected("a fault of this program")
            self._listening.abandon()
            await asyncio.sleep(_jittered(RETRY))

    async def _register(self) -> None:
        for name in self._channels.values():
            await self._listening.standing.execute(f"LISTEN {name}".encode())

    async def _hear_for(self, seconds: float) -> None:
        try:
            async for notification in self._listening.standing.notifies(timeout=seconds):
                self._hear(notification.payload)
        except psycopg.Error as error:
            raise SessionLostError(explain(error)) from error

    async def _probe(self) -> None:
        row = await self._listening.one(_PROBE, list(self._channels.values()))
        if row["registered"] != len(self._channels):
            raise SessionLostError("the session no longer listens to every topic")
        self._state.usage = row["usage"]

    def _connected(self) -> None:
        """Tell everyone to look: whoever looked before we listened may have missed what came between."""
        self._numbers.forgive()
        self._state.connected = True
        if self._stood:
            self._state.gaps += 1
            log.warning("bus listens again; events may have been missed", reason=self._lost)
        self._stood, self._lost = True, ""
        self._broadcast.resync("the bus was away")

    def _disconnected(self, reason: str) -> None:
        self._state.connected = False
        if reason != self._lost:
            log.warning("bus session lost", reason=reason)
        self._lost = reason

    def _hear(self, payload: str) -> None:
        """Take one payload from the database: our own were delivered when they were published."""
        try:
            envelope = unseal(payload)
            if envelope.o == self._origin:
                return
            verdict = self._numbers.hear(envelope.o, envelope.n)
            if verdict is Heard.AGAIN:
                return
            if verdict is Heard.AFTER_GAP:
                self._state.gaps += 1
                log.warning("events were missed", origin=envelope.o)
                self._broadcast.resync("events were missed")
            event = unpack(envelope.e)
        except ValueError as error:
            self._state.unreadable += 1
            self._warn("event cannot be read", reason=str(error))
            return
        self._state.heard += 1
        self._broadcast.deliver(event)

    def _warn(self, what: str, reason: str) -> None:
        """Log a warning, unless the same one was logged a moment ago."""
        now = asyncio.get_running_loop().time()
        if now - self._warned.get(what, -WARN) >= WARN:
            self._warned[what] = now
            log.warning(what, reason=reason)


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.8, 1)  # noqa: S311 - spreads load, guards nothing
