"""`/agents/…`: what servers say to the hub. Each message is signed with its server's own key."""

from http import HTTPStatus

import msgspec
import structlog
from falcon.asgi import Request, Response

from rota.access.scopes import Gate
from rota.coordination.bus.announcer import Announcer
from rota.hub import Hub
from rota.servers.enrolment import Enrolments
from rota.servers.reception import Reception
from rota.store.servers import Servers
from rota.web.bodies import answered
from rota.web.endpoint import Answer as Documented
from rota.web.endpoint import Routes, endpoint
from rota.web.problems import Problem
from rota.wire import channel
from rota.wire.answer import Answer
from rota.wire.envelope import unseal
from rota.wire.errors import GapError, WireError
from rota.wire.statements import Enrolled

LONGEST = 2 * 1024 * 1024  # bytes of a message: a report of a thousand instances with their last lines

log = structlog.get_logger("rota.agents")


class EnrolResource:
    """Where a server completes its enrolment."""

    def __init__(self, hub: Hub, enrolments: Enrolments, reception: Reception) -> None:
        """Enrol servers of this hub."""
        self._servers = Servers(hub.database)
        self._enrolments = enrolments
        self._reception = reception

    @endpoint(
        Gate.OWN,
        "Complete an enrolment, with an envelope signed by the key that it names",
        answers={
            200: Documented("What the server must know.", Enrolled),
            403: Documented("Why not.", Answer),
        },
    )
    async def on_post(self, req: Request, resp: Response) -> None:
        """Enrol, or say why not, to the server and in the journal."""
        data = await body(req)
        try:
            statement = channel.read_enrol(unseal(data), await self._reception.audience())
            name = statement.sender
            primary = next(
                (row for row in await self._servers.all() if row.is_primary and row.name != name), None
            )
            answered(resp, await self._enrolments.complete(statement, primary))
        except WireError as error:
            refuse(resp, error, "enrolment")
        else:
            log.info("server enrolled", server=name)


class MessageResource:
    """Where reports and rotations arrive."""

    def __init__(self, reception: Reception) -> None:
        """Take them."""
        self._reception = reception

    @endpoint(
        Gate.OWN,
        "A report or a rotation, in an envelope signed by the server",
        answers={200: Documented("Taken.", Answer), 403: Documented("Why not.", Answer)},
        limited=False,
    )
    async def on_post(self, req: Request, resp: Response) -> None:
        """Take a message, or say why not, to the server and in the journal."""
        data = await body(req)
        try:
            answered(resp, await self._reception.take(data))
        except WireError as error:
            refuse(resp, error, "message")


async def body(req: Request, longest: int = LONGEST) -> bytes:
    """Return a body. Raises Problem where it is too long."""
    data = bytearray()
    async for chunk in req.stream:
        data += chunk
        if len(data) > longest:
            raise Problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "Too long", f"{longest} bytes at most.", "Send less."
            )
    return bytes(data)


def refuse(resp: Response, error: WireError, what: str) -> None:
    """Answer why something is refused, and note it here as well."""
    log.warning("refused", what=what, code=error.code, reason=str(error))
    expected = error.expected if isinstance(error, GapError) else 0
    refused = Answer(state="refused", reason=str(error)[:500], code=error.code, expected=expected)
    resp.status = "403 Forbidden"
    resp.content_type = "application/json"
    resp.set_header("Cache-Control", "no-store")
    resp.data = msgspec.json.encode(refused)


def add_routes(routes: Routes, hub: Hub, enrolments: Enrolments) -> Reception:
    """Add them; return what takes messages."""
    reception = Reception(hub.settings, hub.database, Announcer(hub.together.bus))
    routes.add("/agents/enrol", EnrolResource(hub, enrolments, reception))
    routes.add("/agents/messages", MessageResource(reception))
    return reception
