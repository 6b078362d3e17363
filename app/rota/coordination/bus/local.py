"""The bus of one machine: one process, so that delivering to its own subscribers is everything."""

from functools import partial

from rota.coordination.bus.broadcast import Broadcast, Subscription
from rota.coordination.bus.bus import BusState
from rota.coordination.bus.envelope import pack
from rota.coordination.bus.events import Event, Topic
from rota.store.database import Transaction


class LocalBus:
    """The `Bus` seam within a process."""

    def __init__(self) -> None:
        """Carry to whoever subscribes."""
        self._broadcast = Broadcast()
        self._state = BusState(connected=True)

    @property
    def state(self) -> BusState:
        """The counters."""
        return self._state

    def start(self) -> None:
        """Begin: nothing to do."""

    def publish(self, event: Event, after: Transaction | None = None) -> None:
        """Deliver at once, or after the commit."""
        pack(event)  # what no other process could be told is refused here too
        if after is not None:
            after.after_commit(partial(self.publish, event))
            return
        self._state.published += 1
        self._broadcast.deliver(event)

    def subscribe(self, topic: Topic) -> Subscription:
        """Subscribe."""
        return self._broadcast.subscribe(topic)

    async def close(self) -> None:
        """End: nothing to do."""
