"""What pages show has changed: said to every process, and of one thing not more often than pages can use."""

import asyncio

from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import Event, Live

PAUSE = 0.1  # seconds between two events of one topic and kind from one process


class Announcer:
    """Publishes `Live` events: the first of a kind at once, those that follow soon once more at the end."""

    def __init__(self, bus: Bus, pause: float = PAUSE) -> None:
        """Speak over this bus, of one topic and kind once in `pause` seconds at most."""
        self._bus = bus
        self._pause = pause
        self._said: dict[Event, float] = {}  # when each was last said, or will be

    def say(self, topic: str, kind: str) -> None:
        """Tell every process that what this topic's pages show has changed."""
        self.publish(Live(topic, kind))

    def publish(self, event: Event) -> None:
        """Tell every process of any event, and not more often either."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        since = now - self._said.get(event, now - self._pause)
        if since >= self._pause:
            self._said = {known: at for known, at in self._said.items() if now - at < self._pause}
            self._said[event] = now
            self._bus.publish(event)
        elif since >= 0:
            self._said[event] = now + self._pause - since
            loop.call_later(self._pause - since, self._bus.publish, event)
