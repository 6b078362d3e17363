"""The parts of a hub that deploy, put together in this process, with simulated servers."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.support.server import Simulated, listening
from tests.support.servers_hub import HUB_KEY, ServersHub
from tests.support.tlog_hub import Led, lead

from rota.builds.manifest import Manifest, written
from rota.coordination.queue.queue import TableQueue
from rota.deploys.asking import Asking
from rota.deploys.driver import Driver
from rota.errors import UnreachableError
from rota.routing.proxy import NoProxy, Proxy
from rota.settings import Settings
from rota.settings.model import DeploysSettings
from rota.store.artifacts import Artifacts
from rota.store.builds import Builds
from rota.store.database import Database, Transaction
from rota.store.deploys import DeployRow, Deploys
from rota.store.instances import InstanceRow, Instances
from rota.tasks.checkpointer import Checkpointer
from rota.tasks.outbox import Drain
from rota.tasks.routing import RoutingSync
from rota.wire.statements import Health, Process

if TYPE_CHECKING:
    from rota.coordination.leader import LedTask
    from rota.coordination.queue.kinds import Job

REPORT = 0.05  # seconds between two reports of a simulated server


class OneJob:
    """A claimed job that nobody takes away."""

    def __init__(self, **payload: Any) -> None:
        self.payload = payload
        self.id = 1
        self.attempt = 1

    async def finish(self, transaction: Transaction) -> None:
        """Nothing is to be finished."""


class DeploysHub(ServersHub):
    """One process's own."""

    def __init__(self, settings: Settings, database: Database, *, settle: int = 0) -> None:
        super().__init__(replace(settings, deploys=DeploysSettings(settle=settle)), database)
        self.queue = TableQueue(database, self.bus)
        self.asking = Asking(self.settings, database, self.tlog, self.queue, self.bus)
        self.driver = Driver(self.settings, database, self.bus)
        self.deploys = Deploys(database)
        self.instances = Instances(database)
        self.pool: dict[str, Simulated] = {}
        self.manifests: dict[str, str] = {}
        self.more: dict[str, Any] = {}  # of the next manifest

    def settles(self, seconds: int) -> None:
        """Have old copies stand by for so long from now on."""
        settled = replace(self.settings, deploys=DeploysSettings(settle=seconds))
        self.driver = Driver(settled, self.database, self.bus)

    @contextlib.asynccontextmanager
    async def running(self, *names: str, proxy: Proxy | None = None) -> AsyncIterator[None]:
        """Have the log, the link, the proxy and servers of these names running; the first is the primary."""
        hasty = replace(self.settings, servers=replace(self.settings.servers, report_every=1))
        bodies: dict[str, LedTask] = {
            "tlog.checkpointer": Checkpointer(self.settings, self.database, self.bus),
            "tlog.outbox": Drain(self.settings, self.database, self.bus),
            "servers.link": self.link(HUB_KEY),
            "routing.sync": RoutingSync(hasty, self.database, self.bus, lambda: proxy or NoProxy()),
        }
        async with contextlib.AsyncExitStack() as stack:
            leds = []
            for task, body in bodies.items():
                led = Led(await lead(self.database, task))
                led.running = asyncio.ensure_future(body(led.term))
                leds.append(led)
            for n, name in enumerate(names):
                server = await self.enrolled(name, is_primary=n == 0)
                self.pool[name] = server
                await stack.enter_async_context(listening(server, self.port))
            reporting = asyncio.create_task(self._report())
            try:
                yield
            finally:
                reporting.cancel()
                await asyncio.gather(reporting, return_exceptions=True)
                for led in leds:
                    await led.stop()

    async def _report(self) -> None:
        while True:
            for server in list(self.pool.values()):
                if not server.silent:
                    with contextlib.suppress(UnreachableError):
                        await self.reception.take(server.message(server.report()))
            await asyncio.sleep(REPORT)

    async def built(self, app: str, **processes: Process) -> str:
        """Have what the next build of an app makes; return the source's hash."""
        given = processes or {"web": web()}
        source = hashlib.sha256(repr((app, sorted(given.items()), self.more)).encode()).hexdigest()
        self.manifests[source] = written(Manifest(processes=given, **self.more))
        self.more = {}
        return source

    async def finish_build(self, build: int) -> None:
        """Do what the builder would."""

        async def work(tx: Transaction) -> None:
            row = await Builds.within(tx, build)
            assert row is not None
            await Builds.begin(tx, build)
            await Artifacts.add(tx, row.source, row.source, 1, "build")
            await Builds.finish(tx, build, row.source, self.manifests[row.source])

        await self.database.write(work)

    async def deploy(self, app: str = "shop", **processes: Process) -> DeployRow:
        """Deploy an app of these processes, to the end."""
        source = await self.built(app, **processes)
        return await self.carry_on((await self.asking.deploy("ann", app, source)).deploy)

    async def carry_on(self, deploy: int) -> DeployRow:
        """Work on a deploy until it has ended."""
        row = await self.row_of(deploy)
        if row.build is not None:
            build = await Builds(self.database).find(row.build)
            if build is not None and not build.state.ended:
                await self.finish_build(row.build)
        job: Job = OneJob(deploy=deploy)
        async with asyncio.timeout(60):
            await self.driver.work(job)
        return await self.row_of(deploy)

    async def row_of(self, deploy: int) -> DeployRow:
        """Return a deploy."""
        row = await self.deploys.find(deploy)
        assert row is not None
        return row

    async def live(self, app: str = "shop") -> list[InstanceRow]:
        """Return the copies that have not stopped."""
        return await self.instances.live(app)


def web(**more: Any) -> Process:
    """Return a process that serves."""
    return Process(command="serve", health=Health(start=2), **more)
