"""Deploys whose worker is killed: a real worker process, `kill -9` at every boundary of a step.

On PostgreSQL. The log, the link and two simulated servers run in the test; the worker is a real `rota serve`.
"""

import asyncio
import contextlib
import itertools
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest
from tests.support.deploys_hub import DeploysHub, web
from tests.support.postgres import Server
from tests.support.process import Hub
from tests.support.settings import NO_SETTINGS, postgres_environ
from tests.support.sql import end_leases
from tests.support.tlog_files import entries_in
from tests.support.wait import eventually

from rota import wiring
from rota.acts.act import read_act
from rota.deploys.asking import STEPS
from rota.failpoints import VARIABLE
from rota.settings import load
from rota.store.deploys import DeployRow
from rota.store.instances import State
from rota.store.releases import Releases
from rota.store.runs import Runs
from rota.wire.statements import Health, Process, Start, Stop

WORKER = Process(command="work", health=Health(kind="process", start=20))
CLOCK = Process(command="tick", singleton=True, health=Health(kind="process", start=20))
DIES = 45.0  # seconds within which a worker reaches the place where it ends
LEASE = 15.0


class Workers:
    """Worker processes of the hub, one after the other."""

    def __init__(self, directory: Path, environ: Mapping[str, str], hubs: list[Hub]) -> None:
        self._directory, self._environ, self._hubs = directory, environ, hubs

    def start(self, failpoint: str = "") -> Hub:
        """Start one that ends at this place, if any."""
        number = len(self._hubs)
        environ = {**self._environ, "ROTA_SERVER_NAME": f"w{number}", VARIABLE: failpoint}
        hub = Hub.start(self._directory / f"w{number}.log", environ, "--role", "worker")
        self._hubs.append(hub)
        return hub

    async def dies(self, failpoint: str) -> None:
        """Have one work until it ends at this place."""
        hub = self.start(failpoint)
        code = await asyncio.to_thread(hub.process.wait, DIES)
        assert code == -signal.SIGKILL, hub.output()


@pytest.fixture
def environ(tmp_path: Path, postgres: Server) -> Mapping[str, str]:
    """Give what every process of the hub is told. None is the primary's, so that nothing builds."""
    return postgres_environ(
        tmp_path / "data",
        postgres,
        postgres.new_schema(),
        ROTA_SERVER_PRIMARY="false",
        ROTA_DEPLOYS_SETTLE="1",
    )


@pytest.fixture
def workers(tmp_path: Path, environ: Mapping[str, str], hubs: list[Hub]) -> Workers:
    """Give the means to start workers."""
    return Workers(tmp_path, environ, hubs)


@pytest.fixture
async def hub(environ: Mapping[str, str]) -> AsyncIterator[DeploysHub]:
    """Give a hub with two servers."""
    settings = load(file=NO_SETTINGS, environ=environ).settings
    async with contextlib.AsyncExitStack() as stack:
        database = wiring.make_database(settings)
        await database.open()
        stack.push_async_callback(database.close)
        made = DeploysHub(settings, database)
        await made.open()
        stack.push_async_callback(made.tlog.close)
        await stack.enter_async_context(made.running("p1", "s1"))
        yield made


async def begin(hub: DeploysHub, **processes: Process) -> int:
    """Begin a deploy of what is built already; return its number."""
    hub.more = {"hook": "migrate"}
    source = await hub.built("shop", **processes)
    deploy = (await hub.asking.deploy("ann", "shop", source)).deploy
    row = await hub.row_of(deploy)
    assert row.build is not None
    await hub.finish_build(row.build)
    return deploy


async def ended(hub: DeploysHub, deploy: int, within: float = 45) -> DeployRow:
    """Wait until a deploy has ended."""

    async def reached() -> bool:
        return (await hub.row_of(deploy)).state != "running"

    await eventually(reached, within=within)
    return await hub.row_of(deploy)


async def state(hub: DeploysHub) -> set[tuple[str, int, State]]:
    return {(copy.name, copy.release, copy.state) for copy in await hub.live()}


def orders(hub: DeploysHub, kind: type[Start] | type[Stop]) -> list[tuple[str, int]]:
    """Return the copies that orders of a kind were about, runs apart, in the order of each server."""
    return [
        (order.instance, order.release)
        for server in hub.pool.values()
        for order in server.orders
        if isinstance(order, kind) and not order.run
    ]


def boundaries() -> Iterator[str]:
    """Yield every place before and after a step."""
    yield from (f"deploy.{step}.{side}" for step, side in itertools.product(STEPS, ("before", "after")))


async def test_a_deploy_whose_worker_is_killed_at_every_boundary_finishes_once(
    hub: DeploysHub, workers: Workers
) -> None:
    assert (await hub.deploy(web=web(), worker=WORKER, clock=CLOCK)).state == "done"
    deploy = await begin(hub, web=web(grace=11), worker=WORKER, clock=CLOCK)
    for place in boundaries():
        await workers.dies(place)
        assert (await hub.row_of(deploy)).state == "running" or place == "deploy.finish.after"
        end_leases(hub.settings)
    workers.start()
    done = await ended(hub, deploy)
    assert (done.state, done.release, done.reason) == ("done", 2, "")
    assert await state(hub) == {
        ("shop.clock.1", 2, State.STARTED),
        ("shop.web.1", 2, State.ROUTED),
        ("shop.worker.1", 2, State.STARTED),
    }
    fresh = [("shop.clock.1", 2), ("shop.web.1", 2), ("shop.worker.1", 2)]
    assert sorted(each for each in orders(hub, Start) if each[1] == 2) == fresh
    assert sorted(orders(hub, Stop)) == [("shop.clock.1", 1), ("shop.web.1", 1), ("shop.worker.1", 1)]
    assert len(await Releases(hub.database).of("shop")) == 2
    assert len(await Runs(hub.database).of_deploy(deploy, "release")) == 1
    acts = [read_act(entry) for entry in entries_in(hub.settings.tlog_directory)]
    ours = [act.kind for act in acts if act.details.get("deploy") == deploy]
    assert ours.count("instances.place") == ours.count("run.start") == 1


async def test_a_singleton_never_runs_twice_whichever_boundary_kills_the_worker(
    hub: DeploysHub, workers: Workers
) -> None:
    assert (await hub.deploy(clock=CLOCK)).state == "done"
    deploy = await begin(hub, clock=CLOCK, web=web())
    seen: list[str] = []
    watching = asyncio.create_task(watch_clocks(hub, seen))
    for place in ("deploy.singletons.before", "deploy.singletons.after", "deploy.switch.before"):
        await workers.dies(place)
        end_leases(hub.settings)
    workers.start()
    assert (await ended(hub, deploy)).state == "done"
    watching.cancel()
    assert max(map(len, seen), default=0) <= 1
    assert seen, "the watch saw nothing"


async def watch_clocks(hub: DeploysHub, seen: list[str]) -> None:
    """Note which copies of the clock run, as often as this process may look; one letter for each."""
    while True:
        running = [
            copy
            for server in hub.pool.values()
            for copy in server.instances.values()
            if copy.instance == "shop.clock.1" and copy.state == "running"
        ]
        seen.append("x" * len(running))
        await asyncio.sleep(0.001)


async def test_the_way_back_survives_it_too(hub: DeploysHub, workers: Workers) -> None:
    assert (await hub.deploy(web=web(), clock=CLOCK)).state == "done"
    for server in hub.pool.values():
        server.sick.add("web")
    deploy = await begin(hub, web=web(grace=11), clock=CLOCK)

    async def started() -> bool:
        return any("shop.web.1@2" in server.instances for server in hub.pool.values())

    await workers.dies("deploy.start.after")
    assert await started()
    end_leases(hub.settings)
    row = await hub.row_of(deploy)
    await hub.asking.cancel("bob", row.id)
    for place in ("deploy.start.after", "deploy.undo.before", "deploy.undo.after"):
        await workers.dies(place)
        end_leases(hub.settings)
    workers.start()
    done = await ended(hub, deploy)
    assert done.state == "cancelled"
    assert await state(hub) == {("shop.web.1", 1, State.ROUTED), ("shop.clock.1", 1, State.STARTED)}
    assert not await started()
    assert ("shop.clock.1", 1) not in orders(hub, Stop)
    acts = [read_act(entry).kind for entry in entries_in(hub.settings.tlog_directory)]
    assert acts.count("deploy.cancelled") <= 1


async def test_another_worker_takes_over_when_the_lease_ends(hub: DeploysHub, workers: Workers) -> None:
    assert (await hub.deploy()).state == "done"
    await begin(hub, web=web(grace=11))
    await workers.dies("deploy.switch.after")
    deploy = (await hub.deploys.running())[0].id
    clock = asyncio.get_running_loop().time
    began = clock()
    workers.start()
    assert (await ended(hub, deploy, within=3 * LEASE)).state == "done"
    print(f"taken over and finished {clock() - began:.1f} s after the start of another worker")
    assert await state(hub) == {("shop.web.1", 2, State.ROUTED)}
