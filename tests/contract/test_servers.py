"""Servers on both kinds of database: enrolled, heard, told, lost. They are simulated, over real HTTP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.server import CAPABILITIES, Simulated, listening
from tests.support.servers_hub import HUB_KEY, ServersHub
from tests.support.sql import run
from tests.support.tlog_hub import Led, lead
from tests.support.wait import eventually

from rota.coordination.epoch import Epoch
from rota.coordination.leader import LedTask
from rota.errors import ConflictError, InputError
from rota.servers import enrolment
from rota.servers.enrolment import EnrolmentRefusedError
from rota.settings import Settings
from rota.store.database import Database
from rota.store.server_outbox import ServerOutbox
from rota.store.servers import Awaited
from rota.store.tlog import Outbox
from rota.tasks.servers import Watch
from rota.wire.channel import Memory
from rota.wire.envelope import unseal
from rota.wire.errors import IllegalError, SessionError, StaleError, UnsignedError, WireError
from rota.wire.keys import SigningKey
from rota.wire.statements import InstanceReport, Rotate, Stop

SICK = InstanceReport(
    instance="shop.web.1",
    release=3,
    state="running",
    healthy=False,
    address="127.0.0.1",
    port=20000,
    restarts=2,
    reason="no answer",
    last_lines="boom",
)


@contextlib.asynccontextmanager
async def leading(site: ServersHub, task: str, body: LedTask) -> AsyncIterator[None]:
    led = Led(await lead(site.database, task))
    led.running = asyncio.ensure_future(body(led.term))
    try:
        yield
    finally:
        await led.stop()
        led.running.result()


@pytest.fixture
async def site(settings: Settings, database: Database) -> AsyncIterator[ServersHub]:
    made = ServersHub(settings, database)
    await made.open()
    yield made
    await made.tlog.close()


class TestEnrolment:
    async def test_a_server_is_awaited_and_then_enrolled(self, site: ServersHub) -> None:
        invitation = await site.invite("s1")
        assert (await site.row("s1")).state == "awaited"
        server = Simulated("s1", invitation.address)
        done = await site.complete(server, invitation)
        row = await site.row("s1")
        assert (row.state, row.distribution, row.capabilities) == ("enrolled", "debian 13", CAPABILITIES)
        assert done.hub_keys == [HUB_KEY.public] == invitation.hub_keys
        assert done.log_key == invitation.log_key
        assert invitation.token not in repr(run(site.settings, "SELECT * FROM servers"))

    async def test_a_token_is_good_once(self, site: ServersHub) -> None:
        invitation = await site.invite("s1")
        await site.complete(Simulated("s1", "x"), invitation)
        with pytest.raises(EnrolmentRefusedError, match="has been used"):
            await site.complete(Simulated("s1", "x"), invitation)

    async def test_the_same_enrolment_again_is_answered_alike_and_resets_nothing(
        self, site: ServersHub
    ) -> None:
        invitation = await site.invite("s1")
        server = Simulated("s1", "x")
        first = await site.complete(server, invitation)
        assert await site.complete(server, invitation) == first
        await site.reception.take(server.message(server.report()))
        with pytest.raises(EnrolmentRefusedError):
            await site.complete(server, invitation)
        assert (await site.row("s1")).session_in == first.session

    async def test_a_token_has_an_end(self, site: ServersHub, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(enrolment, "LASTS", 0)
        with pytest.raises(EnrolmentRefusedError, match="are over"):
            await site.complete(Simulated("s1", "x"), await site.invite("s1"))

    async def test_what_is_wrong_is_refused_with_the_reason(self, site: ServersHub) -> None:
        await site.enrolled("p1", is_primary=True)
        invitation = await site.invite("s1")
        stranger = replace(invitation, token="no token of ours")
        for given, changed, reason in (
            (stranger, {}, "not the token"),
            (invitation, {"distribution": "debian 12"}, "runs debian 12 and the primary debian 13"),
        ):
            with pytest.raises(EnrolmentRefusedError, match=reason):
                await site.complete(Simulated("s1", "x"), given, **changed)
        with pytest.raises(EnrolmentRefusedError, match="no server s9 is awaited"):
            await site.complete(Simulated("s9", "x"), invitation)
        assert (await site.row("s1")).state == "awaited"

    async def test_a_key_of_another_server_is_refused(self, site: ServersHub) -> None:
        first = await site.enrolled("s1")
        copy = Simulated("s2", "x", key=first.key)
        with pytest.raises(EnrolmentRefusedError, match="another server's"):
            await site.complete(copy, await site.invite("s2"))

    async def test_a_new_enrolment_ends_the_old_key_for_good(self, site: ServersHub) -> None:
        old = await site.enrolled("s1")
        new = Simulated("s1", old.address)
        await site.complete(new, await site.invite("s1", old.address))
        with pytest.raises(IllegalError):
            await site.reception.take(old.message(old.report()))
        with pytest.raises(IllegalError):
            await site.reception.take(old.message(Rotate(public_key=SigningKey.new().public)))
        with pytest.raises(EnrolmentRefusedError):
            await site.complete(old, await site.invite("s1", old.address))
        assert (await site.reception.take(new.message(new.report()))).state == "done"

    @pytest.mark.parametrize(
        "wanted",
        [
            Awaited("S1", "10.0.0.1", "", 0),
            Awaited("s_1", "10.0.0.1", "", 0),
            Awaited("s1", "ten", "", 0),
            Awaited("s1", "0.0.0.0", "", 0),  # noqa: S104
            Awaited("s1", "10.0.0.1", "", 0, endpoint="a b"),
            Awaited("s1", "10.0.0.1", "", 0, wireguard_key="short"),
        ],
    )
    async def test_bad_input_is_refused_with_a_remedy(self, site: ServersHub, wanted: Awaited) -> None:
        with pytest.raises(InputError) as refused:
            await site.enrolments.begin("test", wanted)
        assert refused.value.remedy

    async def test_an_address_is_one_servers(self, site: ServersHub) -> None:
        await site.invite("s1", "10.9.9.9")
        with pytest.raises(ConflictError, match="the address of s1"):
            await site.invite("s2", "10.9.9.9")


class TestReports:
    async def test_a_report_is_kept_and_its_instances_are_rows(self, site: ServersHub) -> None:
        server = await site.enrolled("s1")
        server.instances["a"] = SICK
        answer = await site.reception.take(server.message(server.report()))
        assert answer.now > 0
        (found,) = await site.servers.reported("shop")
        assert (found.server, found.instance, found.release, found.healthy) == ("s1", "shop.web.1", 3, False)
        assert found.reason == "no answer\nboom"
        assert await site.servers.reported("other") == []
        server.instances.clear()
        await site.reception.take(server.message(server.report()))
        assert await site.servers.reported() == []

    async def test_every_message_of_a_run_replayed_at_every_later_time_has_no_effect(
        self, site: ServersHub
    ) -> None:
        server = await site.enrolled("s1")
        other = SigningKey.new()
        for step in range(5):
            if step == 2:
                await site.reception.take(server.message(Rotate(public_key=other.public)))
                server.key = other
            else:
                server.instances = {} if step % 2 else {"a": SICK}
                await site.reception.take(server.message(server.report()))
            before = await self._all(site)
            for envelope in server.said:
                with contextlib.suppress(WireError):
                    await site.reception.take(envelope)
            assert await self._all(site) == before

    @staticmethod
    async def _all(site: ServersHub) -> object:
        return [
            run(site.settings, f"SELECT * FROM {table}")  # noqa: S608 - our own names
            for table in ("servers", "server_keys", "reported_instances", "tlog_outbox")
        ]

    async def test_another_session_or_an_older_number_is_refused(self, site: ServersHub) -> None:
        server = await site.enrolled("s1")
        await site.reception.take(server.message(server.report()))
        await site.reception.take(server.message(server.report()))
        server.seq = 0
        with pytest.raises(StaleError):
            await site.reception.take(server.message(server.report()))
        server.session_out = "f" * 32
        with pytest.raises(SessionError):
            await site.reception.take(server.message(server.report()))

    async def test_a_stranger_and_a_wrong_signature_are_refused(self, site: ServersHub) -> None:
        server = await site.enrolled("s1")
        with pytest.raises(UnsignedError, match="no server has this key"):
            await site.reception.take(server.message(server.report(), SigningKey.new()))
        second = await site.enrolled("s2")
        server.seq = 0
        with pytest.raises(UnsignedError):
            await site.reception.take(server.message(server.report(), second.key))


class TestKeys:
    async def test_both_keys_are_good_until_the_overlap_ends(self, site: ServersHub) -> None:
        server = await site.enrolled("s1")
        old, new = server.key, SigningKey.new()
        await site.reception.take(server.message(Rotate(public_key=new.public)))
        for key in (old, new):
            assert (await site.reception.take(server.message(server.report(), key))).state == "done"
        run(site.settings, "UPDATE server_keys SET ends_at = since WHERE ends_at IS NOT NULL")
        with pytest.raises(IllegalError, match="overdue"):
            await site.reception.take(server.message(server.report(), old))
        # Switched off for longer than the overlap: it may still do this one thing.
        newest = SigningKey.new()
        assert (
            await site.reception.take(server.message(Rotate(public_key=newest.public), old))
        ).state == "done"
        assert (await site.reception.take(server.message(server.report(), newest))).state == "done"

    async def test_the_new_key_may_end_the_old_one_at_once(self, site: ServersHub) -> None:
        server = await site.enrolled("s1")
        old, new = server.key, SigningKey.new()
        await site.reception.take(server.message(Rotate(public_key=new.public)))
        await site.reception.take(server.message(Rotate(public_key=new.public, ends=True), new))
        for body in (server.report(), Rotate(public_key=SigningKey.new().public)):
            with pytest.raises(IllegalError):
                await site.reception.take(server.message(body, old))

    async def test_no_key_of_another_is_taken(self, site: ServersHub) -> None:
        first, second = await site.enrolled("s1"), await site.enrolled("s2")
        with pytest.raises(WireError, match="another's"):
            await site.reception.take(first.message(Rotate(public_key=second.key.public)))


class TestLink:
    async def test_orders_arrive_once_and_in_order(self, site: ServersHub) -> None:
        server = await site.enrolled("s1")
        async with listening(server, site.port), leading(site, "servers.link", site.link()):
            orders = [await site.order("s1", subject=f"shop.web.{n}") for n in range(1, 21)]
            await site.done(*orders)
        assert [order.instance for order in server.orders if isinstance(order, Stop)] == [
            f"shop.web.{n}" for n in range(1, 21)
        ]

    async def test_a_refusal_is_noted_with_its_reason(self, site: ServersHub) -> None:
        server = await site.enrolled("s1")
        server.refuse = lambda _: "no such instance"
        async with listening(server, site.port), leading(site, "servers.link", site.link()):
            order = await site.order("s1")
            await site.done(order, state="refused")
        assert (await site.outcome(order)).reason == "no such instance"

    async def test_a_dead_server_holds_up_nobody_and_gets_its_orders_when_it_is_back(
        self, site: ServersHub
    ) -> None:
        dead, live = await site.enrolled("s1"), await site.enrolled("s2")
        async with listening(live, site.port), leading(site, "servers.link", site.link()):
            waits, goes = await site.order("s1"), await site.order("s2")
            await site.done(goes)
            assert await site.state(waits) == "waiting"
            async with listening(dead, site.port):
                await site.done(waits)
        assert len(dead.orders) == 1

    async def test_an_answer_that_was_lost_gives_no_second_effect(self, site: ServersHub) -> None:
        server = await site.enrolled("s1")
        receive, lost = server.receive, list[Any]()

        def loses(envelope: bytes) -> Any:
            answer = receive(envelope)
            if not lost:
                lost.append(answer)
                raise ConnectionResetError
            return answer

        server.receive = loses  # type: ignore[method-assign]
        async with listening(server, site.port), leading(site, "servers.link", site.link()):
            await site.done(await site.order("s1"))
        assert (len(server.envelopes), len(server.orders)) == (2, 1)

    async def test_it_goes_on_with_the_number_that_the_server_expects(self, site: ServersHub) -> None:
        server = await site.enrolled("s1")
        run(site.settings, "UPDATE servers SET seq_out = 40")
        async with listening(server, site.port), leading(site, "servers.link", site.link()):
            await site.done(await site.order("s1"))
        assert server.memory is not None
        assert server.memory.seq == 1

    async def test_an_older_leader_is_refused_by_the_server(self, site: ServersHub) -> None:
        server = await site.enrolled("s1")
        server.memory = Memory(server.session, epoch=Epoch(9, 9))
        async with listening(server, site.port), leading(site, "servers.link", site.link()):
            order = await site.order("s1")

            async def explained() -> bool:
                return "another process leads" in (await site.outcome(order)).reason

            await eventually(explained)
        assert server.orders == []

    async def test_a_new_key_of_the_hub_is_made_known_by_the_old_one(self, site: ServersHub) -> None:
        server, new = await site.enrolled("s1"), SigningKey.new()
        async with listening(server, site.port), leading(site, "servers.link", site.link(new, HUB_KEY)):
            await site.done(await site.order("s1"), await site.order("s1", subject="shop.web.2"))
        assert [type(order).__name__ for order in server.orders] == ["Rotate", "Stop", "Stop"]
        assert unseal(server.envelopes[-1]).signers == (new.public,)
        assert (await site.row("s1")).hub_key == new.public

    async def test_what_needs_a_release_that_is_not_there_is_refused(self, site: ServersHub) -> None:
        server = await site.enrolled("s1")
        async with listening(server, site.port), leading(site, "servers.link", site.link()):
            order = await site.order("s1", "start", app="shop")
            await site.done(order, state="refused")
        assert "shop has no release 3" in (await site.outcome(order)).reason

    async def test_an_order_waits_until_its_act_is_in_the_log(self, site: ServersHub) -> None:
        server = await site.enrolled("s1")
        act = await site.database.write(lambda tx: Outbox.add(tx, b'{"x":1}'))
        body = {"instance": "shop.web.1", "release": 3}
        order = await site.database.write(
            lambda tx: ServerOutbox.put(tx, "s1", "stop", "shop.web.1", body, act=act)
        )
        async with listening(server, site.port), leading(site, "servers.link", site.link()):

            async def explained() -> bool:
                return "not in the log" in (await site.outcome(order)).reason

            await eventually(explained)
            assert server.orders == []
            run(site.settings, "UPDATE tlog_outbox SET position = 7")
            await site.done(order)


class TestWatch:
    async def test_a_silent_server_is_lost_once_and_back_with_its_next_report(self, site: ServersHub) -> None:
        lost, live = await site.enrolled("s1"), await site.enrolled("s2")
        async with leading(site, "servers.watch", Watch(site.database, site.bus, 1)):

            async def is_lost() -> bool:
                await site.reception.take(live.message(live.report()))
                return (await site.row("s1")).lost

            await eventually(is_lost)
            assert not (await site.row("s2")).lost
            await site.reception.take(lost.message(lost.report()))
            assert not (await site.row("s1")).lost
        kinds = [row[0] for row in run(site.settings, "SELECT entry FROM tlog_outbox ORDER BY id")]
        said = [bytes(entry) for entry in kinds]
        assert sum(b'"server.lost"' in entry for entry in said) == 1
        assert sum(b'"server.returned"' in entry for entry in said) == 1

    async def test_a_replayed_report_does_not_keep_a_dead_server_alive(self, site: ServersHub) -> None:
        dead, live = await site.enrolled("s1"), await site.enrolled("s2")
        await site.reception.take(dead.message(dead.report()))
        async with leading(site, "servers.watch", Watch(site.database, site.bus, 1)):

            async def is_lost() -> bool:
                await site.reception.take(live.message(live.report()))
                with contextlib.suppress(WireError):
                    await site.reception.take(dead.said[-1])
                return (await site.row("s1")).lost

            await eventually(is_lost)


async def test_heard_is_by_the_databases_clock(site: ServersHub) -> None:
    await site.enrolled("s1")
    (heard,) = await site.servers.heard()
    assert heard.reported_at is not None
    assert timedelta() <= heard.now - heard.reported_at < timedelta(seconds=30)
