"""`routing.sync`: keeps the proxy doing what the database says."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from rota.configuration.vault import Vault, about
from rota.coordination.bus.broadcast import Resync, Subscription
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import Live, Topic
from rota.coordination.leader import Term
from rota.errors import ConflictError, FencedError, KeyFileError, RotaError, UnreachableError
from rota.routing.domains import SEALED
from rota.routing.gate import gate_keys
from rota.routing.names import host_name
from rota.routing.proxy import Certificate, Proxy, Wanted
from rota.routing.table import Pool, routes
from rota.settings import Settings
from rota.store.apps import AppRow, Apps
from rota.store.certificates import Certificates
from rota.store.database import Database
from rota.store.domains import Domains
from rota.store.gates import Gates
from rota.store.instances import InstanceRow, Instances
from rota.store.releases import Releases
from rota.store.routes import Routes
from rota.store.servers import Servers

LOOK = 2.0  # seconds between two looks that nobody asked for
GAP = timedelta(seconds=5)  # a look that comes later than this means that the hub could not hear

log = structlog.get_logger("rota.routing")


class RoutingSync:
    """Looks at everything, tells the proxy, and confirms what it was seen to do."""

    def __init__(self, settings: Settings, database: Database, bus: Bus, proxy: Callable[[], Proxy]) -> None:
        """Keep the proxy that this makes."""
        self._apps = Apps(database)
        self._instances = Instances(database)
        self._releases = Releases(database)
        self._routes = Routes(database)
        self._servers = Servers(database)
        self._bus = bus
        self._proxy = proxy
        self._domains = Domains(database)
        self._gates = Gates(database)
        self._certificates = Certificates(database)
        self._vault = Vault(settings)
        self._opened: dict[str, tuple[str, str]] = {}
        self._report_every = settings.servers.report_every
        self._settings = settings
        self._domain = settings.routing.domain
        self._paths: dict[tuple[str, int], str] = {}
        self._said: dict[str, str] = {}

    async def __call__(self, term: Term) -> None:
        """Keep it until asked to stop."""
        proxy = self._proxy()
        since: datetime | None = None
        looked: datetime | None = None
        try:
            with self._bus.subscribe(Topic.LIVE) as events:
                while True:
                    try:
                        now = (await self._servers.identity()).now
                        if since is None or looked is None or now - looked > GAP:
                            since = now
                        looked = now
                        await self._look(term, proxy, since, now)
                    except UnreachableError:
                        looked = None  # the proxy stays as it is
                    if await term.pause(LOOK, _may_matter(events)):
                        return
        finally:
            await proxy.close()

    async def _look(self, term: Term, proxy: Proxy, since: datetime, now: datetime) -> None:
        # The numbers first: whoever asks for more afterwards waits for the next look.
        numbers = await self._routes.all()
        wanted = await self.wanted(since, now)
        term.check()
        try:
            failed = await proxy.apply(wanted, term.fence)
        except (UnreachableError, FencedError):
            raise
        except RotaError as error:
            failed = {row.app: str(error) for row in numbers}
        for app, reason in failed.items():
            if self._said.get(app) != reason:
                log.error("app not routed", app=app, reason=reason)
            await self._routes.complain(app, reason, term.fence)
        self._said = failed
        for row in numbers:
            if (
                row.app not in failed
                and (row.confirmed < row.wanted)
                and await self._routes.confirm(row.app, row.wanted, term.fence)
            ):
                self._bus.publish(Live(f"app:{row.app}", "routed"))

    async def wanted(self, since: datetime, now: datetime) -> Wanted:
        """Return everything that the proxy should do, apps by name."""
        servers = {row.name: row for row in await self._servers.all()}
        pool = Pool(servers, since, now, self._report_every)
        copies, reported = await self._instances.live(), await self._servers.reported()
        domains, gates = await self._domains.all(), await self._gates.all()
        found = []
        for app in await self._apps.all():
            own = [copy for copy in copies if copy.app == app.name]
            said = [each for each in reported if each.app == app.name]
            path = await self._health_path(app, own)
            names = [each.name for each in domains if each.app == app.name]
            if self._domain:
                names.append(host_name(f"{app.name}.{self._domain}"))
            gate = gates.get(app.name)
            made = routes(app.name, own, said, pool, path)
            version = gate.version if gate is not None and gate.shut else 0
            found.append(replace(made, names=tuple(sorted(names)), gate=version))
        shut = any(routes.gate for routes in found)
        keys = gate_keys(self._settings) if shut else []
        certificates = await self._certificates_for({name for routes in found for name in routes.names})
        return Wanted(
            apps=found,
            certificates=certificates,
            keys=keys,
            revoked=await self._gates.revoked() if shut else [],
        )

    async def _certificates_for(self, names: set[str]) -> list[Certificate]:
        """Return the certificates of these names; each is opened once."""
        found = []
        for kept in await self._certificates.all():
            if kept.name not in names:
                continue
            opened = self._opened.get(kept.name)
            if opened is None or opened[0] != kept.fingerprint:
                sealed = about(kept.name, SEALED, kept.identity)
                try:
                    key = await asyncio.to_thread(self._vault.unseal, sealed, kept.key)
                except (ConflictError, KeyFileError) as error:
                    log.error("certificate not opened", name=kept.name, reason=str(error))  # noqa: TRY400
                    continue
                opened = kept.fingerprint, kept.chain + key.decode()
                self._opened[kept.name] = opened
            found.append(Certificate(kept.name, opened[1]))
        return found

    async def _health_path(self, app: AppRow, copies: list[InstanceRow]) -> str:
        number = app.release or max((copy.release for copy in copies), default=0)
        if (app.name, number) not in self._paths:
            release = await self._releases.find(app.name, number) if number else None
            process = release.statement.processes.get("web") if release else None
            http = process is not None and process.health.kind == "http"
            self._paths[app.name, number] = process.health.path if http and process else ""
        return self._paths[app.name, number]


async def _may_matter(events: Subscription) -> None:
    """Wait for an event that may change where requests go: a deploy's, a server's, or one that was missed."""
    while True:
        event = await events.next()
        if isinstance(event, Resync):
            break
        if isinstance(event, Live) and (
            (event.topic.startswith("app:") and event.kind in ("routes", "deploy"))
            or (event.topic.startswith("server:") and event.kind == "state")
        ):
            break
    events.skip()
