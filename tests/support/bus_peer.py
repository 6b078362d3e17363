"""One process on the bus: publishes each event that it reads, prints each that it hears.

Usage: python -m tests.support.bus_peer, with the settings in the environment.
Reads and prints one JSON document a line; `{"connected": PID}` comes first.
"""

import asyncio
import json
import sys
import threading

import msgspec
from tests.support.settings import NO_SETTINGS
from tests.support.wait import until

from rota import wiring
from rota.coordination.bus.broadcast import Resync, Subscription
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.envelope import unpack
from rota.coordination.bus.events import Topic
from rota.coordination.bus.notify import NotifyBus
from rota.logging import configure
from rota.settings import load


def say(document: object) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


async def relay(subscribed: Subscription) -> None:
    with subscribed as subscription:
        async for heard in subscription:
            say({"resync": heard.reason} if isinstance(heard, Resync) else msgspec.to_builtins(heard))


def read(bus: Bus, loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    for line in sys.stdin:
        loop.call_soon_threadsafe(bus.publish, unpack(msgspec.Raw(line.encode())))
    loop.call_soon_threadsafe(ended.set)


async def main() -> None:
    configure("warning")
    bus = wiring.make_bus(load(file=NO_SETTINGS).settings)
    assert isinstance(bus, NotifyBus)
    ended = asyncio.Event()
    bus.start()
    await until(lambda: bus.state.connected)
    relays = [asyncio.create_task(relay(bus.subscribe(topic))) for topic in Topic]
    say({"connected": bus.pid})
    threading.Thread(target=read, args=(bus, asyncio.get_running_loop(), ended), daemon=True).start()
    await ended.wait()
    await bus.close()
    for task in relays:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
