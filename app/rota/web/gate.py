"""`/gate`, which leads who is signed in back to an app, and `/api/apps/{app}/gate`."""

import re
import secrets
import time
from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote

import msgspec
from falcon.asgi import Request, Response

from rota.access.scopes import Gate as Access
from rota.access.scopes import Scope
from rota.errors import NotFoundError
from rota.hub import Hub
from rota.routing.domains import Naming
from rota.routing.gate import LASTS, PATH, Pass, gate_keys, sign
from rota.routing.names import host_name
from rota.store.domains import Domains
from rota.store.gates import Gate, Gates, Visit
from rota.web.bodies import answered, queried, received, see
from rota.web.endpoint import Answer, Routes, endpoint
from rota.web.problems import Problem
from rota.web.sign_in import local

Text = Annotated[str, msgspec.Meta(max_length=300)]
_PORT = re.compile(r":[0-9]{1,5}\Z")


class Wish(msgspec.Struct, forbid_unknown_fields=True):
    """Where somebody wanted to go: a name, with its port where it is not the usual one, and a path there."""

    host: Annotated[str, msgspec.Meta(max_length=300, pattern="^[!-~]+$")]
    to: Annotated[str, msgspec.Meta(max_length=2000, pattern="^[!-~]*$")] = "/"


class NewGate(msgspec.Struct, forbid_unknown_fields=True):
    """Whether only those who are signed in may use an app; with `allow` only these accounts."""

    shut: bool
    allow: Annotated[list[Text], msgspec.Meta(max_length=1000)] = []


class GateDocument(msgspec.Struct):
    """An app's gate. An empty `allow` is everyone who is signed in."""

    app: str
    shut: bool
    allow: list[str]


class GateResource:
    """One app's gate."""

    def __init__(self, hub: Hub, naming: Naming) -> None:
        """Show and change this hub's."""
        self._gates = Gates(hub.database)
        self._naming = naming

    @endpoint(Scope.APPS_READ, "An app's gate", answers={200: Answer("The gate.", GateDocument)})
    async def on_get(self, req: Request, resp: Response, app: str) -> None:
        """Answer it; an app that never had one is open."""
        answered(resp, _document(await self._gates.find(app) or Gate(app, shut=False, allowed=(), version=0)))

    @endpoint(
        Scope.APPS_WRITE,
        "Shut or open an app's gate",
        body=NewGate,
        answers={200: Answer("The gate.", GateDocument)},
    )
    async def on_put(self, req: Request, resp: Response, app: str) -> None:
        """Change it; whoever was let in before signs in again."""
        new = await received(req, NewGate)
        actor = req.context.principal.actor
        answered(resp, _document(await self._naming.gate(actor, app, tuple(new.allow), shut=new.shut)))


class EntryResource:
    """Where the proxy sends people who want to use a gated app."""

    def __init__(self, hub: Hub) -> None:
        """Let in to this hub's apps."""
        self._settings = hub.settings
        self._domains = Domains(hub.database)
        self._gates = Gates(hub.database)

    @endpoint(
        Access.SIGNED_IN,
        "On to an app behind the gate",
        query=Wish,
        answers={303: Answer("On to the app.", media=""), 404: Answer("No app has this name.")},
        page=True,
    )
    async def on_get(self, req: Request, resp: Response) -> None:
        """Lead who may use it there, with a token for that name alone."""
        wish, principal = queried(req, Wish), req.context.principal
        name = host_name(wish.host)
        app = await self._app_of(name)
        gate = await self._gates.find(app)
        port = _PORT.search(wish.host)
        there, to = f"https://{name}{port[0] if port else ''}", local(wish.to)
        if gate is None or not gate.shut:
            see(resp, f"{there}{to}")
            return
        if principal.session is None or (gate.allowed and principal.name not in gate.allowed):
            raise Problem(
                HTTPStatus.FORBIDDEN,
                "Not allowed",
                f"{principal.name} may not use {app} here.",
                f"Whoever runs it lets in more accounts with `rota gate {app} on --allow NAME`.",
            )
        visit = Visit(secrets.token_hex(16), app, principal.account, principal.session, LASTS)
        await self._gates.let_in(visit)
        told = Pass(visit.id, principal.name, name, gate.version, int(time.time()) + LASTS)
        token = sign(told, gate_keys(self._settings)[0])
        resp.set_header("Referrer-Policy", "no-referrer")
        see(resp, f"{there}{PATH}?token={token}&to={quote(to, safe='')}")

    async def _app_of(self, name: str) -> str:
        found = await self._domains.find(name)
        if found is not None:
            return found.app
        below = self._settings.routing.domain
        app, _, rest = name.partition(".")
        if below and rest == host_name(below):
            return app
        raise NotFoundError(f"No app has the name {name}.", "`rota domain list` shows all.")


def _document(gate: Gate) -> GateDocument:
    return GateDocument(gate.app, gate.shut, list(gate.allowed))


def add_routes(routes: Routes, hub: Hub, naming: Naming) -> None:
    """Add them."""
    routes.add("/api/apps/{app}/gate", GateResource(hub, naming))
    routes.add("/gate", EntryResource(hub))
