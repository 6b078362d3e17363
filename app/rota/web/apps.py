"""`/api/apps`, `/api/instances`: what runs, where, and why."""

from datetime import datetime

import msgspec
from falcon.asgi import Request, Response

from rota.access.scopes import Scope
from rota.errors import NotFoundError
from rota.hub import Hub
from rota.placement.facts import Placed
from rota.store.apps import Apps
from rota.store.deploys import Deploys, Waiting
from rota.store.instances import InstanceRow, Instances
from rota.store.scales import Scales
from rota.store.servers import Reported, ServerRow, Servers
from rota.web.bodies import answered
from rota.web.endpoint import Answer, Routes, endpoint


class AppDocument(msgspec.Struct):
    """One app. `deploy` is the number of one that is unfinished."""

    name: str
    release: int | None
    instances: int
    healthy: int
    deploy: int | None
    gated: bool
    created_at: datetime


class AppsDocument(msgspec.Struct):
    """Every app, by name."""

    apps: list[AppDocument]


class CopyDocument(msgspec.Struct):
    """One copy of an instance. `state` is lost where its server is: what it does, nobody knows."""

    instance: str
    process_type: str
    release: int
    server: str
    address: str
    port: int
    state: str
    healthy: bool
    restarts: int
    reason: str
    waits: str
    since: datetime


class ScaleDocument(msgspec.Struct):
    """One process type: how many there should be, and its pins."""

    process_type: str
    count: int
    use: list[str]
    avoid: list[str]


class PsDocument(msgspec.Struct):
    """What an app runs, where, and what a server reports that the hub does not know."""

    app: AppDocument
    scales: list[ScaleDocument]
    instances: list[CopyDocument]
    unknown: list[CopyDocument]


class VerdictDocument(msgspec.Struct):
    """What spoke against a server, or its rank among those that were left."""

    server: str
    rank: int | None
    against: dict[str, str]


class WhyDocument(msgspec.Struct):
    """Why an instance is where it is."""

    instance: str
    release: int
    server: str
    state: str
    waits: str
    verdicts: list[VerdictDocument]


class AppsResource:
    """All of them."""

    def __init__(self, hub: Hub) -> None:
        """Show this hub's."""
        self._views = Views(hub)

    @endpoint(Scope.APPS_READ, "Every app", answers={200: Answer("The apps.", AppsDocument)})
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer every app, by name."""
        answered(resp, AppsDocument(await self._views.apps()))


class AppResource:
    """One of them."""

    def __init__(self, hub: Hub) -> None:
        """Show this hub's."""
        self._views = Views(hub)

    @endpoint(Scope.APPS_READ, "What an app runs, and where", answers={200: Answer("The app.", PsDocument)})
    async def on_get(self, req: Request, resp: Response, app: str) -> None:
        """Answer an app's instances."""
        answered(resp, await self._views.ps(app))


class WhyResource:
    """Why an instance is where it is."""

    def __init__(self, hub: Hub) -> None:
        """Explain this hub's."""
        self._views = Views(hub)

    @endpoint(
        Scope.APPS_READ, "Why an instance is where it is", answers={200: Answer("The reasons.", WhyDocument)}
    )
    async def on_get(self, req: Request, resp: Response, instance: str) -> None:
        """Answer the verdict on every server, as it was when the instance was placed."""
        answered(resp, await self._views.why(instance))


class Views:
    """What the API and the pages show of apps."""

    def __init__(self, hub: Hub) -> None:
        """Look at this hub."""
        database = hub.database
        self._apps = Apps(database)
        self._instances = Instances(database)
        self._servers = Servers(database)
        self._deploys = Deploys(database)
        self._scales = Scales(database)
        self._waiting = Waiting(database)

    async def apps(self) -> list[AppDocument]:
        """Return every app, by name."""
        copies, said = await self._instances.live(), await self._servers.reported()
        servers = {server.name: server for server in await self._servers.all()}
        deploys = {row.app: row.id for row in await self._deploys.running()}
        found = []
        for app in await self._apps.all():
            own = [_copy(copy, said, servers, {}) for copy in copies if copy.app == app.name]
            found.append(
                AppDocument(
                    name=app.name,
                    release=app.release,
                    instances=len(own),
                    healthy=sum(copy.healthy for copy in own),
                    deploy=deploys.get(app.name),
                    gated=app.gated,
                    created_at=app.created_at,
                )
            )
        return found

    async def ps(self, app: str) -> PsDocument:
        """Return what an app runs. Raises NotFoundError."""
        about = next((each for each in await self.apps() if each.name == app), None)
        if about is None:
            raise NotFoundError(f"There is no app {app}.", "`rota apps` shows all; `rota deploy` makes one.")
        copies, said = await self._instances.live(app), await self._servers.reported(app)
        servers = {server.name: server for server in await self._servers.all()}
        waiting, scales = await self._waiting.all(), await self._scales.of(app)
        known = {(copy.server, copy.name, copy.release) for copy in copies}
        strangers = [each for each in said if (each.server, each.instance, each.release) not in known]
        return PsDocument(
            app=about,
            scales=[
                ScaleDocument(each.process_type, each.count, list(each.use), list(each.avoid))
                for each in scales.values()
            ],
            instances=[_copy(copy, said, servers, waiting) for copy in copies],
            unknown=[_stranger(each) for each in strangers],
        )

    async def why(self, instance: str) -> WhyDocument:
        """Return why an instance is where it is. Raises NotFoundError."""
        row = await self._instances.newest(instance.partition("@")[0])
        if row is None:
            raise NotFoundError(
                f"There is no instance {instance}.", f"`rota ps {instance.partition('.')[0]}` shows all."
            )
        placed = msgspec.json.decode(row.reasons, type=Placed)
        waiting = await self._waiting.all()
        return WhyDocument(
            instance=row.name,
            release=row.release,
            server=row.server,
            state=row.state.value,
            waits=waiting.get(f"{row.copy} on {row.server}", ""),
            verdicts=[VerdictDocument(each.server, each.rank, each.against) for each in placed.verdicts],
        )


def _copy(
    copy: InstanceRow, said: list[Reported], servers: dict[str, ServerRow], waiting: dict[str, str]
) -> CopyDocument:
    place = copy.server, copy.name, copy.release
    report = next((each for each in said if (each.server, each.instance, each.release) == place), None)
    server = servers.get(copy.server)
    lost = server is None or server.lost
    state = "lost" if lost else report.state if report else copy.state.value
    healthy = bool(report and report.healthy and not lost)
    return CopyDocument(
        instance=copy.name,
        process_type=copy.process_type,
        release=copy.release,
        server=copy.server,
        address=server.address if server else "",
        port=copy.port,
        state=state,
        healthy=healthy,
        restarts=report.restarts if report else 0,
        reason=report.reason if report else "",
        # What the last pass wrote may be older than the report.
        waits="" if healthy else waiting.get(f"{copy.copy} on {copy.server}", ""),
        since=copy.changed_at,
    )


def _stranger(each: Reported) -> CopyDocument:
    return CopyDocument(
        instance=each.instance,
        process_type=each.instance.split(".")[1],
        release=each.release,
        server=each.server,
        address=each.address,
        port=each.port,
        state="unknown",
        healthy=each.healthy,
        restarts=each.restarts,
        reason="the hub does not know this copy; its server runs it on until an operator decides",
        waits="",
        since=each.since,
    )


def add_routes(routes: Routes, hub: Hub) -> None:
    """Add them."""
    routes.add("/api/apps", AppsResource(hub))
    routes.add("/api/apps/{app}", AppResource(hub))
    routes.add("/api/instances/{instance}/why", WhyResource(hub))
