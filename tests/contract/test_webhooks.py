"""Webhooks on both kinds of database: from the log to the rows, and from the rows to a real receiver."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.support.hooks_hub import HooksHub
from tests.support.receiver import Received, Receiver, receiving, status
from tests.support.sql import run
from tests.support.tlog_files import entries_in
from tests.support.wait import eventually, until

from rota.acts.act import read_act
from rota.coordination.bus.events import DeliveryWaiting
from rota.coordination.queue import kinds as rules
from rota.coordination.queue import worker as working
from rota.errors import ConflictError, FencedError, InputError, NotFoundError
from rota.hooks import delivering
from rota.hooks.subscriptions import Wanted
from rota.settings import Settings
from rota.store.database import Database
from rota.store.deliveries import Deliveries, Standing, State
from rota.store.jobs import Jobs
from rota.store.webhooks import Change, Webhooks


@pytest.fixture
def hub(settings: Settings, database: Database) -> HooksHub:
    return HooksHub(settings, database)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as started:
        yield started


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make waits short."""
    monkeypatch.setattr(delivering, "FIRST", 0.0)
    monkeypatch.setattr(rules, "FIRST", 0.01)
    monkeypatch.setattr(working, "POLL", 0.05)


async def all_delivered(hub: HooksHub, count: int) -> None:
    async def done() -> bool:
        return await hub.standings() == {"delivered": count}

    await eventually(done)


class TestSubscriptions:
    async def test_they_are_kept_changed_and_removed_each_as_an_act(self, hub: HooksHub) -> None:
        made, secret = await hub.subscribe("https://example.org/secret-path", "backup.*", app="shop")
        assert (made.kinds, made.app, made.active) == (("backup.*",), "shop", True)
        assert (await hub.subscriptions.find(made.id)).url == made.url
        changed = await hub.subscriptions.change("test", made.id, Change(kinds=("a.b",), app=""))
        assert (changed.url, changed.kinds, changed.app) == (made.url, ("a.b",), "")
        paused = await hub.subscriptions.change("test", made.id, Change(active=False))
        assert (paused.active, paused.kinds) == (False, ("a.b",))
        await hub.subscriptions.remove("test", made.id)
        assert await Webhooks(hub.database).all() == []
        with pytest.raises(NotFoundError):
            await hub.subscriptions.find(made.id)
        with pytest.raises(NotFoundError):
            await hub.subscriptions.change("test", made.id, Change(active=True))
        entries = entries_in(hub.settings.tlog_directory)
        acts = [read_act(entry) for entry in entries]
        assert [act.kind for act in acts] == [
            "webhook.create",
            "webhook.change",
            "webhook.change",
            "webhook.remove",
        ]
        assert {act.subject for act in acts} == {f"webhook:{made.id}"}
        everything = b"".join(entries)
        assert secret.encode() not in everything
        assert b"secret-path" not in everything

    async def test_what_cannot_be_used_leaves_no_act(self, hub: HooksHub) -> None:
        for wanted in (
            Wanted(url="ftp://example.org"),
            Wanted(url="https://example.org", kinds=("A",)),
            Wanted(url="https://example.org", secret="whsec_short"),
        ):
            with pytest.raises(InputError):
                await hub.subscriptions.create("test", wanted)
        made, _ = await hub.subscribe("https://example.org")
        with pytest.raises(InputError):
            await hub.subscriptions.change("test", made.id, Change(url="x"))
        assert len(entries_in(hub.settings.tlog_directory)) == 1

    async def test_the_secret_is_sealed_in_the_database(self, hub: HooksHub) -> None:
        _, secret = await hub.subscribe("https://example.org")
        ((kept,),) = run(hub.settings, "SELECT secret FROM webhooks")
        assert secret not in kept
        assert secret.removeprefix("whsec_") not in kept


class TestWalk:
    async def test_each_act_after_the_subscription_becomes_one_delivery(self, hub: HooksHub) -> None:
        await hub.act()
        made, _ = await hub.subscribe("https://example.org", "probe.*")
        await hub.subscribe("https://example.org", "other.*")
        told = [await hub.act(), await hub.act(kind="probe.make.failed")]
        await hub.act(kind="something.else")
        fence = (await hub.lead()).term.fence
        for _ in range(3):
            assert await hub.walk.step(fence) is False
        found = await hub.deliveries.list()
        assert [(each.webhook, each.entry) for each in found] == [
            (made.id, index) for index in reversed(told)
        ]
        assert {each.standing for each in found} == {Standing.NEW}

    async def test_a_long_log_is_walked_in_parts(
        self, hub: HooksHub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("rota.hooks.walk.ENTRIES", 3)
        await hub.subscribe("https://example.org", "probe.*")
        for _ in range(7):
            await hub.act()
        fence, steps = (await hub.lead()).term.fence, 1
        while await hub.walk.step(fence):
            steps += 1
        assert steps == 3
        assert await hub.standings() == {"new": 7}

    async def test_an_old_leader_makes_nothing_and_loses_nothing(self, hub: HooksHub) -> None:
        await hub.subscribe("https://example.org", "probe.*")
        await hub.act()
        old = (await hub.lead()).term.fence
        new = (await hub.lead()).term.fence
        with pytest.raises(FencedError):
            await hub.walk.step(old)
        assert await hub.standings() == {}
        await hub.walk.step(new)
        assert await hub.standings() == {"new": 1}

    async def test_a_walk_from_where_another_one_was_makes_nothing_twice(self, hub: HooksHub) -> None:
        await hub.subscribe("https://example.org", "probe.*")
        fence = (await hub.lead()).term.fence
        await hub.walk.step(fence)
        before = run(hub.settings, "SELECT position, root FROM webhooks_cursor")[0]
        await hub.act()
        await hub.walk.step(fence)
        run(hub.settings, "UPDATE webhooks_cursor SET position = ?, root = ?", *before)
        await hub.walk.step(fence)
        assert await hub.standings() == {"new": 1}

    async def test_a_paused_one_is_told_of_nothing_that_happens_meanwhile(self, hub: HooksHub) -> None:
        made, _ = await hub.subscribe("https://example.org", "probe.*")
        await hub.subscriptions.change("test", made.id, Change(active=False))
        await hub.act()
        await hub.subscriptions.change("test", made.id, Change(active=True))
        last = await hub.act()
        await hub.walk.step((await hub.lead()).term.fence)
        assert [each.entry for each in await hub.deliveries.list()] == [last]

    async def test_a_log_that_cannot_be_read_holds_up_no_delivery(
        self, hub: HooksHub, receiver: Receiver
    ) -> None:
        made, _ = await hub.subscribe(receiver.url, "probe.*")
        await hub.act()
        await hub.walk.step((await hub.lead()).term.fence)
        run(hub.settings, "UPDATE webhooks_cursor SET position = ?", "0:999999999:999")
        async with hub.leading():
            await all_delivered(hub, 1)
        assert receiver.received[0].id.endswith(made.id)


class TestFirstTry:
    async def test_an_act_arrives_signed_and_once(self, hub: HooksHub, receiver: Receiver) -> None:
        made, secret = await hub.subscribe(receiver.url, "probe.*")
        async with hub.leading():
            entry = await hub.act(subject="app:shop", size=7)
            await until(lambda: receiver.received, within=1.0)
            await all_delivered(hub, 1)
        (got,) = receiver.received
        assert got.signed_with(secret)
        assert not got.signed_with((await hub.subscribe(receiver.url))[1])
        assert (got.line, got.headers["content-type"]) == ("POST /hook HTTP/1.1", "application/json")
        assert got.document["type"] == "probe.make"
        data = got.document["data"]
        assert (data["entry"], data["subject"], data["details"]) == (entry, "app:shop", {"size": 7})
        delivery = await hub.only()
        assert (delivery.tries, delivery.status, delivery.reason) == (1, 204, "")
        assert delivery.webhook == made.id
        assert hub.parts.tries.count == {"delivered": 1}

    async def test_a_failed_one_is_its_jobs_from_then_on(self, hub: HooksHub, receiver: Receiver) -> None:
        receiver.answer = _refuse
        await hub.subscribe(receiver.url, "probe.*")
        async with hub.leading():
            await hub.act()
            await eventually(lambda: _standing(hub, "queued"))
            hub.bus.publish(DeliveryWaiting())
            assert await hub.deliveries.waiting(9, 9) == []
        assert len(receiver.received) == 1
        delivery = await hub.only()
        assert (delivery.tries, delivery.status, delivery.reason) == (1, 500, "the receiver answered 500")
        (job,) = await Jobs(hub.database).list()
        assert (job.id, job.kind, job.state) == (delivery.job, "webhook.deliver", "later")
        assert delivery.next_at == job.run_after

    async def test_one_that_keeps_up_waits_for_none_that_does_not(self, hub: HooksHub) -> None:
        slow, _ = await hub.subscribe("https://slow.example/", "probe.*")
        quick, _ = await hub.subscribe("https://quick.example/", "probe.*")
        for _ in range(3):
            await hub.act()
        await hub.walk.step((await hub.lead()).term.fence)
        *early, _ = [due for due in await hub.deliveries.waiting(9, 9) if due.webhook == quick.id]
        for due in early:
            await hub.database.write(
                lambda tx, due=due: Deliveries.settle(tx, due, State.DELIVERED, 204, None)  # type: ignore[misc]
            )
        waiting = await hub.deliveries.waiting(2, 2)
        assert {due.webhook for due in waiting} == {slow.id, quick.id}

    async def test_an_old_leader_notes_nothing_and_its_successor_tries_again(
        self, hub: HooksHub, receiver: Receiver
    ) -> None:
        await hub.subscribe(receiver.url, "probe.*")
        await hub.act()
        old = (await hub.lead()).term.fence
        await hub.walk.step(old)
        (due,) = await hub.deliveries.waiting(1, 1)
        async with hub.leading():
            await all_delivered(hub, 1)
        late = hub.parts.delivering()
        with pytest.raises(FencedError):
            await late.first(due, old)
        await late.close()
        ids = [each.id for each in receiver.received]
        assert ids == [ids[0]] * 2, "so that the receiver can tell a double"
        assert (await hub.only()).tries == 1

    async def test_a_slow_receiver_holds_up_no_other(self, hub: HooksHub, receiver: Receiver) -> None:
        released = asyncio.Event()

        async def slow(_: Received) -> bytes:
            await released.wait()
            return status(200)

        async with receiving(slow) as slowly:
            await hub.subscribe(slowly.url, "probe.*")
            await hub.subscribe(receiver.url, "probe.*")
            for _ in range(40):
                await hub.act()
            async with hub.leading():
                await until(lambda: len(receiver.received) == 40, within=2.5)
                assert slowly.connections == 4
                released.set()
                await all_delivered(hub, 80)


@pytest.mark.usefixtures("hasty")
class TestJob:
    async def test_it_tries_until_the_receiver_is_well(self, hub: HooksHub, receiver: Receiver) -> None:
        async def well_at_last(_: Received) -> bytes:
            return status(200 if len(receiver.received) > 3 else 503)

        receiver.answer = well_at_last
        await hub.subscribe(receiver.url, "probe.*")
        async with hub.leading(), hub.working():
            await hub.act()
            await all_delivered(hub, 1)

            async def ended() -> bool:
                return not await Jobs(hub.database).list()

            await eventually(ended)
        assert (await hub.only()).tries == len(receiver.received) == 4
        assert len({each.id for each in receiver.received}) == 1

    async def test_after_eight_attempts_it_is_dead_and_can_be_redelivered(
        self, hub: HooksHub, receiver: Receiver
    ) -> None:
        receiver.answer = _refuse
        made, _ = await hub.subscribe(receiver.url, "probe.*")
        async with hub.leading(), hub.working():
            await hub.act()
            await eventually(lambda: _standing(hub, "dead"), within=20)
            assert len(receiver.received) == 1 + 8
            receiver.answer = _thank
            again = await hub.subscriptions.redeliver("test", made.id, (await hub.only()).id)
            assert again.standing is not Standing.DEAD
            await all_delivered(hub, 1)
        assert len(receiver.received) == 10

    async def test_of_a_paused_webhook_it_waits_without_a_job(
        self, hub: HooksHub, receiver: Receiver
    ) -> None:
        receiver.answer = _refuse
        made, _ = await hub.subscribe(receiver.url, "probe.*")
        async with hub.leading():
            await hub.act()
            await eventually(lambda: _standing(hub, "queued"))
            await hub.subscriptions.change("test", made.id, Change(active=False))
            async with hub.working():
                await eventually(lambda: _standing(hub, "new"))
            assert await Jobs(hub.database).list() == []
            assert len(receiver.received) == 1
            receiver.answer = _thank
            with pytest.raises(ConflictError, match="paused"):
                await hub.subscriptions.ping("test", made.id)
            await hub.subscriptions.change("test", made.id, Change(active=True))
            await all_delivered(hub, 1)

    async def test_of_a_removed_webhook_it_ends(self, hub: HooksHub, receiver: Receiver) -> None:
        receiver.answer = _refuse
        made, _ = await hub.subscribe(receiver.url, "probe.*")
        async with hub.leading():
            await hub.act()
            await eventually(lambda: _standing(hub, "queued"))
        await hub.subscriptions.remove("test", made.id)
        async with hub.working():

            async def ended() -> bool:
                return not await Jobs(hub.database).list()

            await eventually(ended)
        assert len(receiver.received) == 1
        assert run(hub.settings, "SELECT count(*) FROM deliveries") == [(0,)]


class TestByHand:
    async def test_a_ping_is_told_whatever_the_webhook_is_subscribed_to_and_once(
        self, hub: HooksHub, receiver: Receiver
    ) -> None:
        made, secret = await hub.subscribe(receiver.url, "nothing.*")
        every, _ = await hub.subscribe(receiver.url)
        async with hub.leading():
            one = await hub.subscriptions.ping("test", made.id)
            two = await hub.subscriptions.ping("test", every.id)
            assert (one.kind, two.kind) == ("webhook.ping", "webhook.ping")
            # The second webhook is told of the ping of the first one too, and of its own once.
            await all_delivered(hub, 3)
        assert [each.signed_with(secret) for each in receiver.received].count(True) == 1

    async def test_a_delivered_one_is_sent_again_under_the_same_id(
        self, hub: HooksHub, receiver: Receiver
    ) -> None:
        made, _ = await hub.subscribe(receiver.url, "probe.*")
        async with hub.leading():
            await hub.act()
            await all_delivered(hub, 1)
            await hub.subscriptions.redeliver("test", made.id, (await hub.only()).id)
            await until(lambda: len(receiver.received) == 2)
            await all_delivered(hub, 1)
        assert receiver.received[0].id == receiver.received[1].id
        assert receiver.received[0].body == receiver.received[1].body
        assert (await hub.only()).tries == 2

    async def test_one_whose_job_was_dropped_is_sent_again(self, hub: HooksHub, receiver: Receiver) -> None:
        receiver.answer = _refuse
        made, _ = await hub.subscribe(receiver.url, "probe.*")
        async with hub.leading():
            await hub.act()
            await eventually(lambda: _standing(hub, "queued"))
            delivery = await hub.only()
            assert delivery.job is not None
            await Jobs(hub.database).drop([delivery.job])
            assert await hub.standings() == {"dropped": 1}
            receiver.answer = _thank
            await hub.subscriptions.redeliver("test", made.id, delivery.id)
            await all_delivered(hub, 1)

    async def test_what_is_not_there_is_said_to_be_so(self, hub: HooksHub) -> None:
        made, _ = await hub.subscribe("https://example.org")
        with pytest.raises(NotFoundError, match="no such delivery"):
            await hub.subscriptions.redeliver("test", made.id, 99)
        with pytest.raises(NotFoundError, match="no webhook"):
            await hub.subscriptions.ping("test", "nobody")


async def test_old_ones_are_forgotten_and_those_to_be_tried_are_not(
    hub: HooksHub, receiver: Receiver
) -> None:
    await hub.subscribe(receiver.url, "good.*")
    await hub.subscribe("http://10.0.0.1/", "bad.*")
    await hub.subscribe("http://10.0.0.1/", "waits.*")
    await hub.act(kind="good.one")
    await hub.act(kind="bad.one")
    async with hub.leading() as led:
        await eventually(lambda: _standing(hub, "queued"))
        await eventually(lambda: _standing(hub, "delivered"))
        fence = led.term.fence
    await hub.act(kind="waits.one")
    await hub.walk.step(fence)
    assert await hub.standings() == {"delivered": 1, "new": 1, "queued": 1}
    assert await hub.deliveries.prune(fence, 1) == 0
    assert await hub.deliveries.prune(fence, -1) == 1, "as if two days had passed"
    assert await hub.standings() == {"new": 1, "queued": 1}
    (queued,) = [each for each in await hub.deliveries.list() if each.job]
    assert queued.reason == "no connection: 10.0.0.1 is private, and [webhooks] allow does not name it"
    assert queued.job is not None
    await Jobs(hub.database).drop([queued.job])
    assert await hub.deliveries.prune(fence, -1) == 1


async def _standing(hub: HooksHub, standing: str) -> bool:
    return standing in await hub.standings()


async def _refuse(_: Received) -> bytes:
    return status(500)


async def _thank(_: Received) -> bytes:
    return status(200)
