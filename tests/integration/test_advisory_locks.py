"""Leader locks on a real PostgreSQL: one leader of each task, whatever happens to a session."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.postgres import PASSWORD, Server
from tests.support.proxy import Proxy
from tests.support.settings import postgres_settings
from tests.support.wait import until

from rota import wiring
from rota.coordination.advisory import AdvisoryLocks
from rota.coordination.keys import leader_key
from rota.coordination.leader import Leader, Term
from rota.coordination.locks import SessionLostError
from rota.coordination.tenure import ANSWER, TRUST
from rota.secret import Secret
from rota.settings import Settings
from rota.store.postgres_connection import Address


@pytest.fixture
async def settings(tmp_path: Path, postgres: Server) -> Settings:
    """Give the settings of a migrated hub on PostgreSQL."""
    made = postgres_settings(tmp_path, postgres, postgres.new_schema())
    database = wiring.make_database(made)
    await database.open()
    await database.close()
    return made


@pytest.fixture
async def proxy(postgres: Server) -> AsyncIterator[Proxy]:
    """Give a link to the server that can fall silent."""
    made = await Proxy.start(postgres.port)
    yield made
    await made.stop()


def locks_for(settings: Settings, port: int | None = None) -> AdvisoryLocks:
    url = settings.database.url
    if port is not None:
        url = url.replace(url.rsplit(":", 1)[1].split("/")[0], str(port))
    return AdvisoryLocks(Address(url, Secret(PASSWORD), settings.database.schema, f"test:{id(object())}"))


class Party:
    """One process's part: a leader of one task that keeps a record."""

    def __init__(self, settings: Settings, port: int | None = None) -> None:
        self.locks = locks_for(settings, port)
        self.leader = Leader(self.locks)
        self.running = 0
        self.leader.run("flow.scheduler", self.body)
        self.leader.start()

    async def body(self, term: Term) -> None:
        self.running += 1
        try:
            await term.stopping.wait()
        finally:
            self.running -= 1


async def test_two_processes_lead_a_task_exactly_once(settings: Settings) -> None:
    a, b = Party(settings), Party(settings)
    await until(lambda: a.running + b.running)
    rounds = asyncio.get_running_loop().time() + 5
    while asyncio.get_running_loop().time() < rounds:
        assert a.running + b.running == 1
        await asyncio.sleep(0.01)
    await a.leader.resign()
    await b.leader.resign()


async def test_a_resignation_wakes_the_successor_at_once(settings: Settings) -> None:
    a = Party(settings)
    await until(lambda: a.running)
    b = Party(settings)
    await until(lambda: b.locks.pid)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await a.leader.resign()
    await until(lambda: b.running, within=1.0)
    print(f"taken over {loop.time() - began:.3f} s after the resignation")
    assert b.leader.epoch_of("flow.scheduler") == 2
    await b.leader.resign()


async def test_a_terminated_session_is_noticed_and_led_once_again(
    settings: Settings, postgres: Server
) -> None:
    a = Party(settings)
    await until(lambda: a.running)
    b = Party(settings)
    pid = a.locks.pid
    with postgres.admin() as admin:
        admin.execute("SELECT pg_terminate_backend(%s)", (pid,))
    await until(lambda: a.leader.generation == 1, within=1.0)
    await until(lambda: a.locks.pid not in (None, pid))
    await until(lambda: 2 in (a.leader.epoch_of("flow.scheduler"), b.leader.epoch_of("flow.scheduler")))
    await until(lambda: a.running + b.running == 1)
    await a.leader.resign()
    await b.leader.resign()


async def test_a_silent_link_stops_the_holder_before_the_server_frees_the_lock(
    settings: Settings, proxy: Proxy
) -> None:
    loop = asyncio.get_running_loop()
    a = Party(settings, proxy.port)
    await until(lambda: a.running)
    b = Party(settings)
    proxy.mute()
    began = loop.time()
    await until(lambda: not a.running, within=TRUST + 0.5)
    stopped = loop.time() - began
    assert not b.running
    await until(lambda: b.running, within=11.0)
    print(f"cut off: stopped after {stopped:.2f} s, taken over after {loop.time() - began:.2f} s")
    await a.leader.resign()
    await b.leader.resign()


async def test_a_call_that_is_not_answered_ends_within_its_bound(settings: Settings, proxy: Proxy) -> None:
    locks = locks_for(settings, proxy.port)
    await locks.open()
    proxy.mute()
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(SessionLostError, match="no answer"):
        await locks.probe()
    assert loop.time() - began < ANSWER + 0.5
    await locks.close()


async def test_an_address_that_says_nothing_does_not_hide_the_next(settings: Settings, proxy: Proxy) -> None:
    proxy.mute()
    url = settings.database.url.replace("127.0.0.1", f"127.0.0.1:{proxy.port},127.0.0.1")
    locks = AdvisoryLocks(Address(url, Secret(PASSWORD), settings.database.schema, "test:1"))
    await locks.open()
    await locks.probe()
    await locks.close()


async def test_whoever_connects_as_a_session_is_left_is_heard(settings: Settings, proxy: Proxy) -> None:
    """The kernel gives the lowest free descriptor: that of the session which has just gone."""
    locks = locks_for(settings, proxy.port)
    await locks.open()
    proxy.mute()
    with pytest.raises(SessionLostError, match="no answer"):
        await locks.probe()
    ours, theirs = socket.socketpair()
    with theirs:
        reader, writer = await asyncio.open_connection(sock=ours)
        theirs.sendall(b"hello\n")
        assert await asyncio.wait_for(reader.readline(), timeout=3) == b"hello\n"
        writer.close()


async def test_a_cancelled_try_leaves_no_lock_held(settings: Settings, postgres: Server) -> None:
    key = leader_key(settings.database.schema, "t")
    for pause in range(12):
        locks = locks_for(settings)
        await locks.open()
        task = asyncio.create_task(locks.acquire(["t"]))
        await asyncio.sleep(pause * 0.0002)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await locks.close()

        def held() -> bool:
            with postgres.admin("rota") as admin:
                low = key & 0xFFFFFFFF
                query = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = %s"
                return admin.execute(query, (low,)).fetchone() is not None

        await until(lambda: not held(), within=2.0)


async def test_two_hubs_in_two_schemas_share_no_lock(
    tmp_path: Path, settings: Settings, postgres: Server
) -> None:
    other = postgres_settings(tmp_path, postgres, postgres.new_schema())
    database = wiring.make_database(other)
    await database.open()
    a, b = Party(settings), Party(other)
    await until(lambda: a.running and b.running)
    await a.leader.resign()
    await b.leader.resign()
    await database.close()


async def test_the_server_restarts_and_the_task_is_led_again(settings: Settings) -> None:
    server = Server.create()
    try:
        data = settings.server.data
        own = postgres_settings(data, server, server.new_schema())
        database = wiring.make_database(own)
        await database.open()
        party = Party(own)
        await until(lambda: party.running)
        server.stop()
        await until(lambda: not party.running)
        server.start()
        back = asyncio.get_running_loop().time()
        await until(lambda: party.running, within=5.0)
        print(f"led again {asyncio.get_running_loop().time() - back:.2f} s after the server was back")
        await party.leader.resign()
        await database.close()
    finally:
        server.destroy()


async def test_no_server_at_all_means_no_leader_and_no_crash(settings: Settings) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        party = Party(settings, nobody.getsockname()[1])
        await until(lambda: party.leader.generation >= 1)
        assert party.leader.leading() == []
        await party.leader.resign()
