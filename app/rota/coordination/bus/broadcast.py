"""Within one process: every subscriber of a topic hears each event once."""

import asyncio
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rota.coordination.bus.events import Event, Topic

MOST = 1024  # events that may wait for one subscriber


@dataclass(frozen=True)
class Resync:
    """Events may have been missed: look at what the database says, now."""

    reason: str


class Subscription:
    """One subscriber's events, in order. Owned by one task; used with `with`, so that it ends.

    A subscriber that does not keep up loses what waits, and is told to resync.
    """

    def __init__(self, broadcast: "Broadcast", topic: Topic) -> None:
        """Wait for the events of this topic."""
        self.topic = topic
        self._broadcast = broadcast
        self._waiting: deque[Event | Resync] = deque()
        self._bell = asyncio.Event()

    def put(self, item: Event | Resync) -> None:
        """Add one; at most one resync waits, and what waits behind it is heard all the same."""
        if isinstance(item, Resync) and item in self._waiting:
            return
        if len(self._waiting) >= MOST:
            self._waiting.clear()
            item = Resync("too many events waited")
        self._waiting.append(item)
        self._bell.set()

    async def next(self) -> Event | Resync:
        """Wait for the next one."""
        while not self._waiting:
            self._bell.clear()
            await self._bell.wait()
        return self._waiting.popleft()

    def skip(self) -> None:
        """Pass over what waits: whoever looks now knows it already."""
        self._waiting.clear()

    def close(self) -> None:
        """Hear nothing more."""
        self._broadcast.forget(self)

    def __aiter__(self) -> Self:
        """Iterate for ever."""
        return self

    async def __anext__(self) -> Event | Resync:
        """Wait for the next one."""
        return await self.next()

    def __enter__(self) -> Self:
        """Subscribed already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hear nothing more."""
        self.close()


class Broadcast:
    """The subscribers of one process."""

    def __init__(self) -> None:
        """Have none yet."""
        self._subscribers: dict[Topic, set[Subscription]] = {topic: set() for topic in Topic}

    def subscribe(self, topic: Topic) -> Subscription:
        """Return a subscription, which hears everything from here on."""
        subscription = Subscription(self, topic)
        self._subscribers[topic].add(subscription)
        return subscription

    def forget(self, subscription: Subscription) -> None:
        """Let a subscriber go."""
        self._subscribers[subscription.topic].discard(subscription)

    def deliver(self, event: Event) -> None:
        """Hand an event to the subscribers of its topic."""
        for subscription in self._subscribers[event.on]:
            subscription.put(event)

    def resync(self, reason: str) -> None:
        """Tell every subscriber of every topic, once, to look."""
        for subscribers in self._subscribers.values():
            for subscription in subscribers:
                subscription.put(Resync(reason))
