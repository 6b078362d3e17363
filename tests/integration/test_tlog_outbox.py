"""Workers' acts on their way into the log: in order, once each, whoever is killed at whatever step."""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.postgres import Server, free_port
from tests.support.process import Hub
from tests.support.settings import postgres_environ, postgres_settings, sqlite_settings
from tests.support.tlog_files import entries_in
from tests.support.tlog_hub import Led, lead
from tests.support.wait import until

from rota import wiring
from rota.coordination.bus.events import ActWaiting
from rota.coordination.bus.local import LocalBus
from rota.errors import FencedError, TlogError
from rota.settings import Settings
from rota.store.database import Database, Transaction
from rota.store.tlog import Outbox
from rota.tasks import outbox
from rota.tasks.outbox import Drain

TASK = "tlog.outbox"


class KilledError(BaseException):
    """The process ended here."""


async def decide(database: Database, *entries: bytes) -> list[int]:
    """Decide acts as a worker does, each in a transaction of its own."""
    ids = []
    for entry in entries:

        async def work(tx: Transaction, entry: bytes = entry) -> int:
            return await Outbox.add(tx, entry)

        ids.append(await database.write(work))
    return ids


async def check(database: Database, directory: Path, ids: list[int], entries: list[bytes]) -> None:
    """Make sure that each act stands in the log once, in order, and that its row says where."""
    indices = [await Outbox(database).index_of(each) for each in ids]
    found = entries_in(directory)
    assert indices == sorted(indices, key=lambda index: -1 if index is None else index)
    assert [found[index] for index in indices if index is not None] == entries
    assert len(found) == len(set(found))


STEPS = [
    (owner, name, when)
    for owner, names in {
        "_outbox": ("waiting", "begin", "indexed"),
        "_tlog": ("settle", "append_once"),
    }.items()
    for name in names
    for when in ("before", "after")
]


@pytest.mark.parametrize(("owner", "name", "when"), STEPS)
async def test_a_web_process_that_ends_at_any_step(
    settings: Settings, database: Database, owner: str, name: str, when: str
) -> None:
    acts = [b"act %d" % number for number in range(5)]
    ids = await decide(database, *acts)
    dying = Drain(settings, database, LocalBus())

    def dies(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def called(*values: Any) -> Any:
            if when == "after":
                await method(*values)
            raise KilledError

        return called

    part = getattr(dying, owner)
    setattr(part, name, dies(getattr(part, name)))
    with pytest.raises(KilledError):
        await dying.drain(Led(await lead(database, TASK)).term)
    more = await decide(database, b"later")
    heir, term = Drain(settings, database, LocalBus()), Led(await lead(database, TASK)).term
    while await heir.drain(term):
        pass
    await check(database, settings.tlog_directory, ids + more, [*acts, b"later"])


async def test_a_process_that_wakes_up_late_appends_nothing_twice(
    settings: Settings, database: Database
) -> None:
    acts = [b"act %d" % number for number in range(20)]
    ids = await decide(database, *acts)
    old, term = Drain(settings, database, LocalBus()), Led(await lead(database, TASK)).term
    rows = await old._outbox.waiting(100)
    await old._outbox.begin([row.id for row in rows], (await old._tlog.settle()).position, term.fence)
    rows = await old._outbox.waiting(100)  # and here it is frozen
    heir, new = Drain(settings, database, LocalBus()), Led(await lead(database, TASK)).term
    assert await heir.drain(new) == 20
    since = rows[0].since
    assert since is not None
    found = await old._tlog.append_once([row.entry for row in rows], since)
    assert [each.index for each in found] == list(range(20))
    with pytest.raises(FencedError):
        await old._outbox.indexed([(row.id, 999) for row in rows], term.fence)
    await check(database, settings.tlog_directory, ids, acts)


async def test_two_at_once_append_nothing_twice(tmp_path: Path) -> None:
    settings = sqlite_settings(tmp_path)
    database = wiring.make_database(settings)
    await database.open()
    acts = [b"act %d" % number for number in range(300)]
    ids = await decide(database, *acts)
    term = Led(await lead(database, TASK)).term
    drains = [Drain(settings, database, LocalBus()) for _ in range(3)]
    while any(await asyncio.gather(*(drain.drain(term) for drain in drains))):
        pass
    await check(database, settings.tlog_directory, ids, acts)
    await database.close()


async def test_an_act_whose_append_fails_waits_for_a_better_time(
    settings: Settings, database: Database
) -> None:
    (row,) = await decide(database, b"act")
    settings.tlog_directory.parent.mkdir(parents=True, exist_ok=True)
    settings.tlog_directory.write_text("in the way")
    term = Led(await lead(database, TASK)).term
    with pytest.raises(TlogError):
        await Drain(settings, database, LocalBus()).drain(term)
    assert await Outbox(database).index_of(row) is None
    settings.tlog_directory.unlink()
    assert await Drain(settings, database, LocalBus()).drain(term) == 1
    assert await Outbox(database).index_of(row) == 0


async def test_an_act_that_is_told_of_does_not_wait_for_the_next_look(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "LOOK", 3600.0)
    bus, led = LocalBus(), Led(await lead(database, TASK))
    await decide(database, b"before")
    led.running = asyncio.create_task(Drain(settings, database, bus)(led.term))
    await until(lambda: entries_in(settings.tlog_directory) == [b"before"])

    async def work(tx: Transaction) -> int:
        return await Outbox.add(tx, b"told", lambda: bus.publish(ActWaiting()))

    await database.write(work)
    try:
        await until(lambda: entries_in(settings.tlog_directory) == [b"before", b"told"])
    finally:
        await led.stop()


async def test_web_processes_killed_again_and_again_while_acts_are_decided(
    tmp_path: Path, postgres: Server, hubs: list[Hub]
) -> None:
    """The effect of an act waits for its index; each index is there in the end, and no act stands twice."""
    schema = postgres.new_schema()
    environ = {**postgres_environ(tmp_path / "data", postgres, schema), "ROTA_SERVER_ROLES": "web"}
    settings = postgres_settings(tmp_path / "data", postgres, schema)
    database = wiring.make_database(settings)
    await database.open()
    chance = random.Random(7)  # noqa: S311 - the same chance each time
    ids: list[int] = []
    acts: list[bytes] = []
    effects: list[int] = []

    async def wait_for_index(row: int) -> None:
        end = asyncio.get_running_loop().time() + 60
        while (await Outbox(database).index_of(row)) is None:
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.05)
        effects.append(row)

    waiting = []
    for turn in range(4):
        hub = Hub.start(tmp_path / f"{turn}.log", environ, port=free_port())
        hubs.append(hub)
        await until(lambda hub=hub: "tlog.outbox" in hub.leading(), 20)  # type: ignore[misc]
        for _ in range(chance.randint(3, 12)):
            new = [b"act %d" % (len(acts) + at) for at in range(chance.randint(1, 30))]
            acts += new
            for row in await decide(database, *new):
                ids.append(row)
                waiting.append(asyncio.create_task(wait_for_index(row)))
            await asyncio.sleep(0)
        for pid in reversed(hub.pids()):
            os.kill(pid, signal.SIGKILL)
    hub = Hub.start(tmp_path / "last.log", environ, port=free_port())
    hubs.append(hub)
    await asyncio.gather(*waiting)
    assert sorted(effects) == ids
    await check(database, settings.tlog_directory, ids, acts)
    await database.close()
