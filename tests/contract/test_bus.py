"""The `Bus` seam, within one process and over PostgreSQL: what its own subscribers may rely on."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.support.wait import until

from rota import wiring
from rota.coordination.bus import broadcast
from rota.coordination.bus.broadcast import Resync, Subscription
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import DeliveryWaiting, Event, JobWaiting, Live, RoomEvent, Topic
from rota.settings import Settings
from rota.store.database import Database, Transaction


@pytest.fixture
async def bus(settings: Settings) -> AsyncIterator[Bus]:
    """Give a bus that is carrying."""
    made = wiring.make_bus(settings)
    made.start()
    await until(lambda: made.state.connected)
    yield made
    await made.close()


async def heard(subscription: Subscription, count: int) -> list[Event | Resync]:
    async with asyncio.timeout(5):
        return [await subscription.next() for _ in range(count)]


async def silent(subscription: Subscription) -> bool:
    """Tell whether a subscription has nothing to say, now that the loop has turned."""
    try:
        async with asyncio.timeout(0.05):
            await subscription.next()
    except TimeoutError:
        return True
    return False


async def test_a_subscriber_hears_every_event_once_and_in_order(bus: Bus) -> None:
    events = [Live("app:1", str(number)) for number in range(500)]
    with bus.subscribe(Topic.LIVE) as subscription:
        for event in events:
            bus.publish(event)
        assert await heard(subscription, 500) == events
        assert await silent(subscription)
    assert bus.state.published == 500


async def test_two_equal_events_in_a_row_are_both_heard(bus: Bus) -> None:
    with bus.subscribe(Topic.DELIVERIES) as subscription:
        bus.publish(DeliveryWaiting())
        bus.publish(DeliveryWaiting())
        assert await heard(subscription, 2) == [DeliveryWaiting()] * 2
        assert await silent(subscription)


async def test_each_of_several_subscribers_hears_it(bus: Bus) -> None:
    with bus.subscribe(Topic.QUEUE) as one, bus.subscribe(Topic.QUEUE) as two:
        bus.publish(JobWaiting("mail"))
        assert await heard(one, 1) == await heard(two, 1) == [JobWaiting("mail")]


async def test_another_topic_hears_nothing(bus: Bus) -> None:
    with bus.subscribe(Topic.ROOMS) as subscription:
        bus.publish(Live("app:1", "deploy"))
        assert await silent(subscription)


async def test_who_subscribes_later_hears_nothing_of_before(bus: Bus) -> None:
    bus.publish(DeliveryWaiting())
    with bus.subscribe(Topic.DELIVERIES) as subscription:
        assert await silent(subscription)


async def test_a_subscription_that_has_ended_is_forgotten(bus: Bus) -> None:
    with bus.subscribe(Topic.LIVE) as subscription:
        pass
    bus.publish(Live("app:1", "deploy"))
    assert await silent(subscription)


async def test_what_is_published_in_a_transaction_is_heard_after_its_commit(
    bus: Bus, database: Database
) -> None:
    with bus.subscribe(Topic.QUEUE) as subscription:

        async def work(tx: Transaction) -> int:
            bus.publish(JobWaiting("mail"), after=tx)
            await tx.run("backups.begin", name="one", cause="operator")
            return bus.state.published

        assert await database.write(work) == 0
        assert await heard(subscription, 1) == [JobWaiting("mail")]


async def test_what_is_published_in_a_transaction_that_fails_is_never_heard(
    bus: Bus, database: Database
) -> None:
    async def work(tx: Transaction) -> None:
        bus.publish(JobWaiting("mail"), after=tx)
        await tx.run("backups.begin", name="one", cause="operator")
        raise KeyError("stop")

    with bus.subscribe(Topic.QUEUE) as subscription:
        with pytest.raises(KeyError):
            await database.write(work)
        assert await silent(subscription)
    assert bus.state.published == 0


async def test_a_subscriber_that_does_not_keep_up_is_told_to_look_and_hears_what_follows(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "MOST", 3)
    with bus.subscribe(Topic.LIVE) as slow:
        for number in range(4):
            bus.publish(Live("app:1", str(number)))
        bus.publish(Live("app:1", "last"))
        first, second = await heard(slow, 2)
        assert isinstance(first, Resync)
        assert second == Live("app:1", "last")


async def test_text_that_is_no_unicode_is_refused_and_nobody_hears_it(bus: Bus) -> None:
    with bus.subscribe(Topic.ROOMS) as subscription:
        with pytest.raises(ValueError, match="RoomEvent holds text that cannot be sent"):
            bus.publish(RoomEvent("server:s2", "\ud800"))
        assert await silent(subscription)


async def test_text_of_every_other_kind_is_carried(bus: Bus) -> None:
    event = RoomEvent("server:s2", "NUL \0, quotes ' \" \\, 𝄞, \u2028, \x1b[31m")
    with bus.subscribe(Topic.ROOMS) as subscription:
        bus.publish(event)
        assert await heard(subscription, 1) == [event]


async def test_a_bus_that_never_started_can_publish_and_be_closed(settings: Settings) -> None:
    bus = wiring.make_bus(settings)
    with bus.subscribe(Topic.LIVE) as subscription:
        bus.publish(Live("app:1", "deploy"))
        assert await heard(subscription, 1) == [Live("app:1", "deploy")]
    await bus.close()
    await bus.close()
