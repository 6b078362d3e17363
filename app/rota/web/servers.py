"""`/api/servers`: the servers that run apps."""

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated

import msgspec
from falcon.asgi import Request, Response

from rota.access.scopes import Scope
from rota.errors import NotFoundError
from rota.hub import Hub
from rota.servers.enrolment import Enrolments, Invitation
from rota.store.server_outbox import ServerOutbox
from rota.store.servers import Awaited, ServerRow, Servers
from rota.web.bodies import answered, received
from rota.web.endpoint import Answer, Routes, endpoint

API = "/api/servers"
Text = Annotated[str, msgspec.Meta(max_length=300)]


class NewServer(msgspec.Struct, forbid_unknown_fields=True):
    """A host to await: `address` is its own in the private network."""

    name: Text
    address: Text
    endpoint: Text = ""
    wireguard_key: Text = ""
    primary: bool = False


class InvitationDocument(msgspec.Struct):
    """What the host must be given within 15 minutes; the token is answered this once."""

    name: str
    address: str
    token: str
    hub: str
    url: str
    hub_keys: list[str]
    log_key: str


class InstanceDocument(msgspec.Struct):
    """One copy of an instance, as its server last reported it."""

    instance: str
    release: int
    state: str
    healthy: bool
    port: int
    restarts: int
    reason: str


class ServerDocument(msgspec.Struct):
    """One server. `state` is awaited, enrolled, lost or removed; times and sizes as their names end."""

    name: str
    address: str
    state: str
    primary: bool
    distribution: str
    virtualisation: bool
    memory_bytes: int
    processors: int
    architecture: str
    agent_version: str
    report_age_s: float | None
    round_trip_ms: float | None
    clock_offset_ms: float | None
    load: float | None
    memory_free_bytes: int | None
    disk_free_bytes: int | None
    instances: list[InstanceDocument]
    waiting: int
    enrolled_at: datetime | None
    lost_at: datetime | None
    warnings: list[str]


class ServersDocument(msgspec.Struct):
    """Every server, by name."""

    servers: list[ServerDocument]


class ServersResource:
    """All of them."""

    def __init__(self, hub: Hub, enrolments: Enrolments) -> None:
        """Show this hub's, and begin enrolments."""
        self._servers = Servers(hub.database)
        self._outbox = ServerOutbox(hub.database)
        self._enrolments = enrolments

    @endpoint(Scope.SERVERS_READ, "Every server", answers={200: Answer("The servers.", ServersDocument)})
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer every server, by name; a lost one stands among them."""
        waiting = await self._outbox.counts()
        now = (await self._servers.identity()).now
        rows = await self._servers.all()
        answered(resp, ServersDocument([document(row, now, waiting.get(row.name, 0)) for row in rows]))

    @endpoint(
        Scope.SERVERS_WRITE,
        "Await a server, and make the token with which it enrols",
        body=NewServer,
        answers={201: Answer("What the host must be given.", InvitationDocument)},
    )
    async def on_post(self, req: Request, resp: Response) -> None:
        """Begin an enrolment; one begun before for the same name is void."""
        new = await received(req, NewServer)
        wanted = Awaited(
            name=new.name,
            address=new.address,
            token="",
            lasts=0,
            endpoint=new.endpoint,
            wireguard_key=new.wireguard_key,
            is_primary=new.primary,
        )
        made = await self._enrolments.begin(req.context.principal.actor, wanted)
        answered(resp, invitation(made), HTTPStatus.CREATED)


class ServerResource:
    """One of them."""

    def __init__(self, hub: Hub) -> None:
        """Show this hub's."""
        self._servers = Servers(hub.database)
        self._outbox = ServerOutbox(hub.database)

    @endpoint(Scope.SERVERS_READ, "One server", answers={200: Answer("The server.", ServerDocument)})
    async def on_get(self, req: Request, resp: Response, name: str) -> None:
        """Answer one server."""
        row = await self._servers.find(name)
        if row is None:
            raise NotFoundError(f"There is no server {name}.", "`rota server list` shows all.")
        waiting = await self._outbox.counts()
        answered(resp, document(row, (await self._servers.identity()).now, waiting.get(name, 0)))


def invitation(made: Invitation) -> InvitationDocument:
    """Return an invitation as it is answered."""
    return InvitationDocument(
        made.name, made.address, made.token, made.hub, made.url, made.hub_keys, made.log_key
    )


def document(row: ServerRow, now: datetime, waiting: int) -> ServerDocument:
    """Return a server as it is answered; `now` is by the database's clock."""
    report, offers = row.report, row.capabilities
    load = report.load if report else None
    state = "lost" if row.lost and row.state == "enrolled" else row.state
    return ServerDocument(
        name=row.name,
        address=row.address,
        state=state,
        primary=row.is_primary,
        distribution=row.distribution,
        virtualisation=bool(offers and offers.virtualisation),
        memory_bytes=offers.memory if offers else 0,
        processors=offers.processors if offers else 0,
        architecture=offers.architecture if offers else "",
        agent_version=row.agent_version,
        report_age_s=age(row.reported_at, now),
        round_trip_ms=_ms(report.round_trip if report else None),
        clock_offset_ms=_ms(report.clock_offset if report else None),
        load=load.average / 1000 if load else None,
        memory_free_bytes=load.memory_free if load else None,
        disk_free_bytes=load.disk_free if load else None,
        instances=[
            InstanceDocument(
                each.instance,
                each.release,
                "unknown" if state == "lost" else each.state,
                each.healthy and state != "lost",
                each.port,
                each.restarts,
                each.reason,
            )
            for each in (report.instances if report else [])
        ],
        waiting=waiting,
        enrolled_at=row.enrolled_at,
        lost_at=row.lost_at,
        warnings=warnings(row),
    )


CLOCK_OFF = 5 * 60 * 1_000_000  # microseconds


def warnings(row: ServerRow) -> list[str]:
    """Return what an operator should know of a server."""
    found, report = [], row.report
    if report and report.clock_offset is not None and abs(report.clock_offset) > CLOCK_OFF:
        found.append(
            f"its clock is {report.clock_offset / 1e6:.0f} s from the hub's: look at its time service"
        )
    if report and report.unheard_for:
        found.append(f"it had not heard from the hub for {report.unheard_for} s")
    return found


def age(at: datetime | None, now: datetime | None = None) -> float | None:
    """Return how long ago something was, in seconds."""
    if at is None:
        return None
    return round(max(0.0, ((now or datetime.now(UTC)) - at).total_seconds()), 1)


def _ms(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / 1000


def add_routes(routes: Routes, hub: Hub, enrolments: Enrolments) -> None:
    """Add them."""
    routes.add(API, ServersResource(hub, enrolments))
    routes.add(f"{API}/{{name}}", ServerResource(hub))
