"""What pages are told, and how often."""

import asyncio
from pathlib import Path

from tests.support.wait import until

from rota.acts.act import Act
from rota.acts.telling import TellingLog
from rota.coordination.bus.announcer import Announcer
from rota.coordination.bus.broadcast import Resync, Subscription
from rota.coordination.bus.events import Event, Live, Topic
from rota.coordination.bus.local import LocalBus
from rota.tlog.disk import LocalDisk
from rota.tlog.log import AppendingLog
from rota.tlog.records import Records


async def _gather(heard: list[Event | Resync], subscription: Subscription) -> None:
    while True:
        heard.append(await subscription.next())


async def test_many_changes_of_one_kind_are_two_events_and_another_kind_is_its_own() -> None:
    bus, heard = LocalBus(), list[Event | Resync]()
    listening = asyncio.create_task(_gather(heard, bus.subscribe(Topic.LIVE)))
    announcer = Announcer(bus, 0.05)
    for _ in range(100):
        announcer.say("acts", "token.create")
    announcer.say("acts", "token.revoke")
    created, revoked = Live("acts", "token.create"), Live("acts", "token.revoke")
    await until(lambda: len(heard) == 3)
    assert heard == [created, revoked, created]
    announcer.say("acts", "token.create")
    announcer.say("acts", "token.create")
    await until(lambda: len(heard) >= 4)
    assert heard[3] == created
    listening.cancel()


async def test_an_act_is_told_once_it_stands_in_the_log(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)

    async def open_records() -> Records:
        return Records(disk, lambda: 0)

    bus = LocalBus()
    log = TellingLog(AppendingLog(disk, open_records), bus)
    with bus.subscribe(Topic.LIVE) as pages:
        acts = [bytes(Act(kind=kind, actor="tests", subject="x")) for kind in ("a.one", "a.two")]
        before = await log.head()
        assert (await log.append(acts[0])).index == 0
        assert await pages.next() == Live("acts", "a.one")
        found = await log.append_once(acts, before.position)
        assert [logged.index for logged in found] == [0, 1]
        assert await pages.next() == Live("acts", "a.two")
        assert await pages.next() == Live("acts", "a.one")  # a second time, a moment after the first
        await log.append(b"no act")
        assert await pages.next() == Live("acts", "")
    await log.close()
