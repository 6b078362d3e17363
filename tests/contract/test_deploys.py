"""Deploys on both kinds of database, against simulated servers over real HTTP, one step after the other."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.support.deploys_hub import DeploysHub, OneJob, web
from tests.support.sql import run
from tests.support.tlog_files import entries_in
from tests.support.tlog_hub import Led, lead
from tests.support.wait import eventually

from rota.acts.act import read_act
from rota.deploys import context
from rota.errors import ConflictError, InputError, NotFoundError
from rota.placement.facts import Facts
from rota.placement.placing import place
from rota.settings import Settings
from rota.store.apps import Apps
from rota.store.database import Database
from rota.store.instances import State
from rota.store.releases import Releases
from rota.store.runs import Runs
from rota.tasks.flow import Placement, Reaper
from rota.wire.statements import Health, InstanceReport, Place, Process, Requires, Start, Stop

WORKER = Process(command="work", health=Health(kind="process", start=2))
CLOCK = Process(command="tick", singleton=True, health=Health(kind="process", start=2))


@pytest.fixture
async def hub(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[DeploysHub]:
    monkeypatch.setattr(context, "LOOK", 0.02)
    monkeypatch.setattr("rota.deploys.steps.SLACK", 1.0)
    made = DeploysHub(settings, database)
    await made.open()
    yield made
    await made.tlog.close()


async def where(hub: DeploysHub, state: State = State.ROUTED) -> list[tuple[str, int, str]]:
    return [(copy.name, copy.release, copy.server) for copy in await hub.live() if copy.state is state]


class TestDeploy:
    async def test_the_first_one_serves(self, hub: DeploysHub) -> None:
        async with hub.running("p1", "s1"):
            done = await hub.deploy()
            assert (done.state, done.release, done.reason) == ("done", 1, "")
            assert await where(hub) == [("shop.web.1", 1, "p1")]
            app = await Apps(hub.database).find("shop")
            release = await Releases(hub.database).find("shop", 1)
        assert app is not None
        assert release is not None
        assert (app.release, release.served) == (1, True)
        placed, started = hub.pool["p1"].orders
        assert isinstance(placed, Place)
        assert isinstance(started, Start)
        assert (placed.statement, placed.instance) == (release.text, "shop.web.1")
        assert placed.proof.startswith("c2sp.org/tlog-proof@v1")

    async def test_the_next_one_replaces_it_without_a_gap(self, hub: DeploysHub) -> None:
        async with hub.running("p1", "s1"):
            await hub.deploy(web=web(), worker=WORKER)
            done = await hub.deploy(web=web(grace=11), worker=WORKER)
            assert done.state == "done"
            assert {(copy.name, copy.release) for copy in await hub.live()} == {
                ("shop.web.1", 2),
                ("shop.worker.1", 2),
            }
        assert "there will be no gap" in str(done.plan) or not any(t["gap"] for t in done.plan["types"])

    async def test_a_broken_one_is_named_with_its_last_lines_and_the_old_one_serves_on(
        self, hub: DeploysHub
    ) -> None:
        async with hub.running("p1"):
            await hub.deploy()
            hub.pool["p1"].sick.add("web")
            done = await hub.deploy(web=web(grace=11))
            assert done.state == "failed"
            assert "shop.web.1@2 on p1 did not become healthy: no answer at /" in done.reason
            assert await where(hub) == [("shop.web.1", 1, "p1")]
            assert list(hub.pool["p1"].instances) == ["shop.web.1@1"]
            app = await Apps(hub.database).find("shop")
        assert app is not None
        assert app.release == 1

    async def test_one_that_dies_again_and_again_is_not_waited_for_to_the_end(
        self, hub: DeploysHub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("rota.deploys.steps.SLACK", 1000.0)
        async with hub.running("p1"):
            hub.pool["p1"].sick.add("web")
            hub.pool["p1"].restarts = 3
            done = await hub.deploy()
        assert (done.state, "did not become healthy" in done.reason) == ("failed", True)

    async def test_one_that_dies_after_the_switch_gives_way_to_the_old_one(self, hub: DeploysHub) -> None:
        async with hub.running("p1"):
            await hub.deploy()
            hub.settles(30)
            source = await hub.built("shop", web=web(grace=11))
            deploy = (await hub.asking.deploy("ann", "shop", source)).deploy
            carrying = asyncio.create_task(hub.carry_on(deploy))

            async def switched() -> bool:
                return await where(hub) == [("shop.web.1", 2, "p1")]

            await eventually(switched)
            assert await where(hub, State.STANDBY) == [("shop.web.1", 1, "p1")]
            server = hub.pool["p1"]
            died = msgspec.structs.replace(server.instances["shop.web.1@2"], healthy=False, reason="exit 1")
            server.instances["shop.web.1@2"] = died
            done = await carrying
            assert (done.state, await where(hub)) == ("failed", [("shop.web.1", 1, "p1")])
            assert "shop.web.1@2 on p1 was healthy and is no longer: exit 1" in done.reason
            app = await Apps(hub.database).find("shop")
        assert app is not None
        assert app.release == 1

    async def test_a_second_one_is_told_who_holds_the_first(self, hub: DeploysHub) -> None:
        async with hub.running("p1"):
            source = await hub.built("shop")
            begun = await hub.asking.deploy("ann", "shop", source)
            with pytest.raises(ConflictError, match=r"by ann since .* UTC") as refused:
                await hub.asking.deploy("bob", "shop", source)
            assert "--wait" in refused.value.remedy
            assert (await hub.carry_on(begun.deploy)).state == "done"

    async def test_what_no_server_can_run_fails_with_the_reasons(self, hub: DeploysHub) -> None:
        async with hub.running("p1"):
            hub.more = {"requires": Requires(virtualisation=True)}
            done = await hub.deploy()
            assert done.state == "failed"
            assert "No server can run shop.web.1. p1: it has no hardware virtualisation" in done.reason
            assert await hub.live() == []

    async def test_a_server_that_refuses_is_named(self, hub: DeploysHub) -> None:
        async with hub.running("p1"):
            hub.pool["p1"].refuse = lambda body: "the disk is full" if isinstance(body, Place) else ""
            done = await hub.deploy()
        assert (done.state, done.reason) == ("failed", "shop.web.1@1 on p1: the disk is full")

    async def test_placement_is_decided_again_from_the_log_alike(self, hub: DeploysHub) -> None:
        async with hub.running("p1", "s1"):
            await hub.deploy(web=web(), worker=WORKER)
        acts = [read_act(entry) for entry in entries_in(hub.settings.tlog_directory)]
        (act,) = [act for act in acts if act.kind == "instances.place"]
        again = place(msgspec.json.decode(act.details["facts"], type=Facts))
        assert [{"instance": each.instance, "server": each.server} for each in again] == act.details["placed"]

    async def test_an_app_named_badly_is_refused(self, hub: DeploysHub) -> None:
        for name in ("Shop", "shop!", "x" * 40, ""):
            with pytest.raises(InputError):
                await hub.asking.deploy("ann", name, "0" * 64)


class TestHooks:
    async def test_a_release_hook_runs_once_before_anything_is_placed(self, hub: DeploysHub) -> None:
        async with hub.running("p1", "s1"):
            hub.more = {"hook": "migrate"}
            assert (await hub.deploy()).state == "done"
            (row,) = await Runs(hub.database).of_deploy(1, "release")
        assert (row.state, row.exit_code, row.server) == ("done", 0, "p1")
        first, second, third = hub.pool["p1"].orders[:3]
        assert isinstance(first, Place)
        assert (first.command, first.run) == ("migrate", row.id)
        assert [type(each) for each in (second, third)] == [Start, Stop]

    async def test_a_hook_that_fails_halts_the_deploy(self, hub: DeploysHub) -> None:
        async with hub.running("p1"):
            await hub.deploy()
            hub.pool["p1"].exit_code = 3
            hub.more = {"hook": "migrate"}
            done = await hub.deploy(web=web(grace=11))
            assert (done.state, "exit code 3" in done.reason) == ("failed", True)
            assert await where(hub) == [("shop.web.1", 1, "p1")]


class TestSingletons:
    async def test_one_is_stopped_before_its_replacement_starts(self, hub: DeploysHub) -> None:
        async with hub.running("p1", "s1"):
            await hub.deploy(clock=CLOCK)
            done = await hub.deploy(clock=msgspec.structs.replace(CLOCK, grace=11))
            assert done.state == "done"
            assert "never runs twice" in str(done.plan)
        happened = [
            (type(body).__name__, body.release)
            for server in hub.pool.values()
            for body in server.orders
            if isinstance(body, Start | Stop)
        ]
        assert happened.index(("Stop", 1)) < happened.index(("Start", 2))

    async def test_where_the_replacement_fails_the_old_one_runs_again(self, hub: DeploysHub) -> None:
        async with hub.running("p1"):
            await hub.deploy(clock=CLOCK)
            server = hub.pool["p1"]
            server.refuse = lambda body: "no" if isinstance(body, Start) and body.release == 2 else ""
            done = await hub.deploy(clock=msgspec.structs.replace(CLOCK, grace=11))
            assert done.state == "failed"
            assert "clock of v1 runs again on p1" in done.reason
            assert [(copy.name, copy.release) for copy in await hub.live()] == [("shop.clock.1", 1)]
            assert list(server.instances) == ["shop.clock.1@1"]


class TestScaleAndPin:
    async def test_two_instances_run_on_two_servers(self, hub: DeploysHub) -> None:
        async with hub.running("p1", "s1"):
            await hub.deploy()
            begun = await hub.asking.scale("ann", "shop", {"web": 2})
            assert (await hub.carry_on(begun.deploy)).state == "done"
            assert {(name, server) for name, _, server in await where(hub)} == {
                ("shop.web.1", "p1"),
                ("shop.web.2", "s1"),
            }
            begun = await hub.asking.scale("ann", "shop", {"web": 1})
            assert (await hub.carry_on(begun.deploy)).state == "done"
            assert [name for name, _, _ in await where(hub)] == ["shop.web.1"]

    async def test_a_pin_moves_what_it_affects(self, hub: DeploysHub) -> None:
        async with hub.running("p1", "s1"):
            await hub.deploy()
            begun = await hub.asking.pin("ann", "shop", "web", ("s1",), ())
            assert (await hub.carry_on(begun.deploy)).state == "done"
            assert await where(hub) == [("shop.web.1", 1, "s1")]
            assert hub.pool["p1"].instances == {}

    async def test_what_cannot_be_changes_nothing(self, hub: DeploysHub) -> None:
        async with hub.running("p1", "s1"):
            await hub.deploy(web=web(), clock=CLOCK)
            before = run(hub.settings, "SELECT * FROM scales")
            with pytest.raises(ConflictError, match="web is pinned away from it"):
                await hub.asking.pin("ann", "shop", "web", (), ("p1", "s1"))
            with pytest.raises(InputError, match="is a singleton"):
                await hub.asking.scale("ann", "shop", {"clock": 2})
            with pytest.raises(NotFoundError, match="has no process type x"):
                await hub.asking.scale("ann", "shop", {"x": 2})
            with pytest.raises(NotFoundError, match="no server s9"):
                await hub.asking.pin("ann", "shop", "web", ("s9",), ())
            with pytest.raises(InputError):
                await hub.asking.scale("ann", "shop", {"web": -1})
            with pytest.raises(NotFoundError, match="no app other"):
                await hub.asking.scale("ann", "other", {"web": 1})
            assert run(hub.settings, "SELECT * FROM scales") == before
            assert await hub.deploys.running() == []

    async def test_a_far_server_is_warned_of(self, hub: DeploysHub) -> None:
        async with hub.running("p1", "s1"):
            hub.more = {"requires": Requires(database=True)}
            hub.pool["s1"].round_trip = 40_000
            await hub.deploy()

            async def far() -> bool:
                row = await hub.row("s1")
                return row.report is not None and row.report.round_trip == 40_000

            await eventually(far)
            begun = await hub.asking.pin("ann", "shop", "web", ("s1",), ())
            assert "latency to the database is over 5 ms" in begun.warnings[0]
            await hub.carry_on(begun.deploy)


class TestCancel:
    async def test_what_it_started_is_stopped_and_the_old_release_serves_on(self, hub: DeploysHub) -> None:
        async with hub.running("p1"):
            await hub.deploy()
            hub.pool["p1"].sick.add("web")
            source = await hub.built("shop", web=web(grace=11))
            deploy = (await hub.asking.deploy("ann", "shop", source)).deploy
            carrying = asyncio.create_task(hub.carry_on(deploy))

            async def started() -> bool:
                return "shop.web.1@2" in hub.pool["p1"].instances

            await eventually(started)
            await hub.asking.cancel("bob", deploy)
            done = await carrying
            assert (done.state, await where(hub)) == ("cancelled", [("shop.web.1", 1, "p1")])
            assert list(hub.pool["p1"].instances) == ["shop.web.1@1"]
            with pytest.raises(ConflictError):
                await hub.asking.cancel("bob", deploy)


class TestAgain:
    """A worker that ends at any point: the next one goes on."""

    @pytest.mark.parametrize(
        "step", ["build", "release", "hook", "place", "start", "health", "switch", "stop", "finish"]
    )
    async def test_a_step_begun_again_has_its_effect_once(
        self, hub: DeploysHub, step: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with hub.running("p1", "s1"):
            await hub.deploy()
            hub.more = {"hook": "migrate"}
            source = await hub.built("shop", web=web(grace=11))
            deploy = (await hub.asking.deploy("ann", "shop", source)).deploy
            end_step = hub.driver._end_step

            class DiedError(Exception):
                pass

            async def dies(context: object, at: object, *rest: object) -> None:
                if at.kind == step:  # type: ignore[attr-defined]
                    monkeypatch.setattr(hub.driver, "_end_step", end_step)
                    raise DiedError
                await end_step(context, at, *rest)  # type: ignore[arg-type]

            monkeypatch.setattr(hub.driver, "_end_step", dies)
            row = await hub.row_of(deploy)
            assert row.build is not None
            await hub.finish_build(row.build)
            with pytest.raises(DiedError):
                await hub.driver.work(OneJob(deploy=deploy))
            assert (await hub.carry_on(deploy)).state == "done"
            assert await where(hub) == [("shop.web.1", 2, "p1")]
            assert len(await Releases(hub.database).of("shop")) == 2
            assert len(await Runs(hub.database).of_deploy(deploy, "release")) == 1
            starts = [body for body in hub.pool["p1"].orders if isinstance(body, Start) and body.run == 0]
            assert len(starts) == 2


class TestFlow:
    async def test_what_waits_says_why(self, hub: DeploysHub) -> None:
        async with hub.running("p1"):
            await hub.deploy()
            hub.pool["p1"].instances["shop.web.1@1"] = InstanceReport(
                instance="shop.web.1",
                release=1,
                state="running",
                healthy=False,
                address="127.0.0.1",
                port=20000,
                restarts=4,
                reason="no answer at /",
            )

            async def said() -> bool:
                found = await Placement(hub.database, hub.bus).reasons()
                return found == {"shop.web.1@1 on p1": "no answer at /"}

            await eventually(said)

    async def test_a_run_whose_server_fell_silent_is_lost_and_not_started_again(
        self, hub: DeploysHub
    ) -> None:
        async with hub.running("p1"):
            server = hub.pool["p1"]
            server.idle = True
            hub.more = {"hook": "migrate"}
            source = await hub.built("shop")
            deploy = (await hub.asking.deploy("ann", "shop", source)).deploy
            carrying = asyncio.create_task(hub.carry_on(deploy))

            async def begun() -> bool:
                return bool(await Runs(hub.database).underway())

            await eventually(begun)
            server.silent = True
            run(hub.settings, "UPDATE servers SET lost_at = created_at")
            led = Led(await lead(hub.database, "flow.reaper"))
            led.running = asyncio.ensure_future(Reaper(hub.database, hub.bus)(led.term))
            done = await carrying
            await led.stop()
            assert done.state == "failed"
            assert "its outcome is unknown" in done.reason
            starts = [body for body in server.orders if isinstance(body, Start)]
        assert len(starts) <= 1
