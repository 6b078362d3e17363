"""The bus between real processes on a real PostgreSQL, and what a fault does to it.

The times are the program's promises; they are printed, and fail at three times
the promise, since machines differ.
"""

import asyncio
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.postgres import Server, free_port
from tests.support.process import environment
from tests.support.proxy import Proxy
from tests.support.settings import postgres_environ, postgres_settings
from tests.support.wait import until

from rota import wiring
from rota.coordination.bus import notify
from rota.coordination.bus.broadcast import Resync, Subscription
from rota.coordination.bus.envelope import pack, seal
from rota.coordination.bus.events import DeliveryWaiting, Event, Live, ProposalChanged, RoomEvent, Topic
from rota.coordination.bus.notify import NotifyBus
from rota.coordination.keys import channel

ROOT = Path(__file__).parents[2]
Make = Callable[..., NotifyBus]


class Peer:
    """Another process on the bus."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.bus_peer"],
            env=environment({**environ, "PYTHONPATH": str(ROOT)}),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.pid = int(self.next(within=20)["connected"])

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))

    def next(self, within: float = 10) -> dict[str, Any]:
        """Return what it heard next."""
        return self._lines.get(timeout=within)

    def silent(self) -> bool:
        """Tell whether it has heard nothing more."""
        return self._lines.empty()

    def publish(self, *documents: Mapping[str, Any]) -> None:
        """Have it publish these events."""
        assert self.process.stdin is not None
        self.process.stdin.write("".join(json.dumps(document) + "\n" for document in documents))
        self.process.stdin.flush()

    def kill(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait(timeout=10)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def live(number: int) -> dict[str, Any]:
    return {"type": "live", "topic": "run:5", "kind": str(number)}


@pytest.fixture
def environ(tmp_path: Path, postgres: Server) -> Mapping[str, str]:
    """Give the environment of the processes of one hub."""
    return postgres_environ(tmp_path, postgres, postgres.new_schema())


@pytest.fixture
def peers(environ: Mapping[str, str]) -> Iterator[tuple[Peer, Peer]]:
    """Give two processes on one bus."""
    both = Peer(environ), Peer(environ)
    yield both
    for peer in both:
        peer.kill()


@pytest.fixture
async def make(tmp_path: Path, postgres: Server, environ: Mapping[str, str]) -> AsyncIterator[Make]:
    """Give a maker of buses of one hub, each as in a process of its own, that end with the test."""
    made: list[NotifyBus] = []

    def new(port: int = postgres.port, schema: str = environ["ROTA_DATABASE_SCHEMA"]) -> NotifyBus:
        url = postgres.url.replace(f":{postgres.port}/", f":{port}/")
        bus = wiring.make_bus(postgres_settings(tmp_path, postgres, schema, ROTA_DATABASE_URL=url))
        assert isinstance(bus, NotifyBus)
        made.append(bus)
        return bus

    yield new
    for bus in made:
        await bus.close()


async def connected(bus: NotifyBus) -> NotifyBus:
    bus.start()
    await until(lambda: bus.state.connected)
    return bus


async def heard(subscription: Subscription, within: float = 10) -> Event | Resync:
    async with asyncio.timeout(within):
        return await subscription.next()


def test_each_process_hears_the_other_in_order_and_itself_once(peers: tuple[Peer, Peer]) -> None:
    a, b = peers
    events = [live(number) for number in range(1000)]
    a.publish(*events)
    assert [b.next() for _ in events] == events
    assert [a.next() for _ in events] == events
    b.publish(live(-1))
    assert a.next() == b.next() == live(-1)
    assert a.silent()
    assert b.silent()


def test_two_equal_events_in_a_row_are_both_heard_elsewhere(peers: tuple[Peer, Peer]) -> None:
    a, b = peers
    a.publish({"type": "delivery_waiting"}, {"type": "delivery_waiting"}, live(1))
    said = sorted([b.next(), b.next(), b.next()], key=str)
    assert said == [{"type": "delivery_waiting"}, {"type": "delivery_waiting"}, live(1)]


def test_a_process_whose_session_is_ended_is_told_to_look_and_hears_again(
    peers: tuple[Peer, Peer], postgres: Server
) -> None:
    a, b = peers
    began = time.monotonic()
    with postgres.admin() as admin:
        admin.execute("SELECT pg_terminate_backend(%s)", (b.pid,))
    assert [b.next(7.5) for _ in Topic] == [{"resync": "the bus was away"}] * len(Topic)
    print(f"listening again {time.monotonic() - began:.2f} s after its backend was ended (promise 2.5 s)")
    a.publish(live(2))
    assert b.next() == live(2)
    assert b.silent()


def test_after_a_restart_of_the_server_all_are_told_to_look_and_hear_again(tmp_path: Path) -> None:
    server = Server.create()
    environ = postgres_environ(tmp_path, server, "hub")
    a, b = Peer(environ), Peer(environ)
    try:
        server.stop()
        a.publish(live(1))
        assert a.next() == live(1)
        server.start()
        for peer in (a, b):
            assert [peer.next() for _ in Topic] == [{"resync": "the bus was away"}] * len(Topic)
        b.publish(live(2))
        assert a.next() == live(2)
        a.publish(live(3))
        # What was published meanwhile may have been sent before b listened again: that is why it looked.
        said = [b.next(), b.next()]
        if live(3) not in said:
            said.append(b.next())
        assert said in ([live(1), live(2), live(3)], [live(2), live(1), live(3)], [live(2), live(3)])
        assert a.next() == live(3)
        assert a.silent()
    finally:
        a.kill()
        b.kill()
        server.destroy()


async def test_two_hubs_in_two_schemas_hear_nothing_of_each_other(make: Make) -> None:
    a, b, other = await connected(make()), await connected(make()), await connected(make(schema="another"))
    with b.subscribe(Topic.LIVE) as ours, other.subscribe(Topic.LIVE) as theirs:
        a.publish(Live("app:1", "deploy"))
        other.publish(Live("app:2", "deploy"))
        assert await heard(theirs) == Live("app:2", "deploy")
        assert await heard(ours) == Live("app:1", "deploy")
        await until(lambda: other.state.waiting == 0)
        a.publish(Live("app:1", "the end"))
        assert await heard(ours) == Live("app:1", "the end")
        assert (other.state.heard, a.state.heard) == (0, 0)


async def test_a_payload_of_7999_bytes_arrives_whole_and_one_of_8000_as_its_type_says(make: Make) -> None:
    a, b = await connected(make()), await connected(make())
    room = 7999 - len(seal(a._origin, 1, pack(RoomEvent("r", ""))).encode())
    with b.subscribe(Topic.ROOMS) as rooms, b.subscribe(Topic.PROPOSALS) as proposals:
        a.publish(RoomEvent("r", "x" * room))
        a.publish(RoomEvent("r", "x" * (room + 1)))
        a.publish(ProposalChanged("shop", 1, "x" * 8000))
        assert await heard(rooms) == RoomEvent("r", "x" * room)
        cut = await heard(proposals)
        assert isinstance(cut, ProposalChanged)
        assert cut.cut
        assert 7800 < len(cut.event) < 8000
    assert (a.state.kept, b.state.heard, b.state.gaps) == (1, 2, 0)


async def test_what_overflows_is_dropped_for_others_who_then_look(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = make(), await connected(make())
    with a.subscribe(Topic.LIVE) as here, b.subscribe(Topic.LIVE) as there:
        for number in range(notify.WAITING + 2):
            a.publish(Live("app:1", str(number)))
            assert await heard(here) == Live("app:1", str(number))
        assert (a.state.waiting, a.state.dropped) == (4096, 2)
        await connected(a)
        for number in range(notify.WAITING):
            assert await heard(there) == Live("app:1", str(number))
        a.publish(DeliveryWaiting())
        assert await heard(there) == Resync("events were missed")
        assert b.state.gaps == 1
    assert "".join(capsys.readouterr()).count("event dropped for other processes") == 1


async def test_a_half_open_link_is_noticed_and_its_process_told_to_look(make: Make, postgres: Server) -> None:
    proxy = await Proxy.start(postgres.port)
    try:
        a, b = await connected(make()), await connected(make(port=proxy.port))
        loop = asyncio.get_running_loop()
        with b.subscribe(Topic.LIVE) as there:
            proxy.mute()
            began = loop.time()
            a.publish(Live("app:1", "lost"))
            await until(lambda: not b.state.connected, within=3 * 10)
            noticed = loop.time() - began
            proxy.heal()
            assert isinstance(await heard(there, within=15), Resync)
            print(
                f"half open: noticed after {noticed:.1f} s (promise 10 s), heals {loop.time() - began:.1f} s"
            )
            a.publish(Live("app:1", "found"))
            assert await heard(there) == Live("app:1", "found")
        assert b.state.gaps == 1
    finally:
        await proxy.stop()


async def test_a_registration_that_is_gone_is_noticed_though_the_connection_answers(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "QUIET", 0.2)
    a, b = await connected(make()), await connected(make())
    with b.subscribe(Topic.LIVE) as there:
        pid = b.pid
        await b._listening.bounded(b._listening.standing.execute("UNLISTEN *"))
        assert isinstance(await heard(there), Resync)
        assert b.pid != pid
        a.publish(Live("app:1", "deploy"))
        assert await heard(there) == Live("app:1", "deploy")


async def test_what_a_newer_program_says_is_passed_over_and_counted(
    make: Make, postgres: Server, environ: Mapping[str, str]
) -> None:
    a, b = await connected(make()), await connected(make())
    name = channel(environ["ROTA_DATABASE_SCHEMA"], Topic.LIVE)
    with b.subscribe(Topic.LIVE) as there:
        with postgres.admin("rota") as admin:
            for payload in ("", "{}", '{"o":"x","n":1,"e":{"type":"of tomorrow"}}'):
                admin.execute("SELECT pg_notify(%s, %s)", (name, payload))
        a.publish(Live("app:1", "deploy"))
        assert await heard(there) == Live("app:1", "deploy")
    assert (b.state.unreadable, b.state.gaps) == (3, 0)


async def test_what_was_published_just_before_the_end_is_still_sent(make: Make) -> None:
    a, b = await connected(make()), await connected(make())
    with b.subscribe(Topic.LIVE) as there:
        a.publish(Live("app:1", "first"))
        assert await heard(there) == Live("app:1", "first")
        a.publish(Live("app:1", "last"))
        await a.close()
        assert await heard(there) == Live("app:1", "last")


async def test_a_database_that_is_away_stops_nobody_who_publishes(make: Make) -> None:
    bus = make(port=free_port())
    bus.start()
    with bus.subscribe(Topic.LIVE) as here:
        bus.publish(Live("app:1", "deploy"))
        assert await heard(here) == Live("app:1", "deploy")
    assert not bus.state.connected
    assert bus.state.waiting == 1
