"""The seam: publish and subscribe, between the processes of one hub."""

from dataclasses import dataclass
from typing import Protocol

from rota.coordination.bus.broadcast import Subscription
from rota.coordination.bus.events import Event, Topic
from rota.store.database import Transaction


@dataclass(kw_only=True)
class BusState:
    """What a bus counts since its process began. `connected` is whether it hears the other processes."""

    published: int = 0
    heard: int = 0  # from other processes
    dropped: int = 0  # for other processes, since too many waited
    kept: int = 0  # in this process, since too long for others
    unreadable: int = 0  # from other processes, such as newer ones
    gaps: int = 0
    waiting: int = 0  # to be sent
    connected: bool = False
    usage: float = 0.0  # share of the database's notification queue that is full


class Bus(Protocol):
    """Carries events between processes, at most once each: a hint to look now, never the truth.

    A subscriber hears the events of its own process at once, those of another
    in the order in which that one published them, none twice, and a `Resync`
    when some may have been missed. Owned by the event loop.
    """

    def start(self) -> None:
        """Begin to carry, in the background, however long the database takes."""

    def publish(self, event: Event, after: Transaction | None = None) -> None:
        """Tell the subscribers here at once, and every other process soon. Never waits.

        With a transaction: once that has committed, and else never. Raises
        ValueError for text that is no Unicode.
        """

    def subscribe(self, topic: Topic) -> Subscription:
        """Return a subscription to what is published from here on."""

    @property
    def state(self) -> BusState:
        """The counters, for reading."""

    async def close(self) -> None:
        """Send what waits, for a moment at most, and end. Never raises."""
