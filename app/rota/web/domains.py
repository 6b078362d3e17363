"""`/api/domains`: the names under which apps are reached, and what an authority asks of them."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated

import msgspec
from falcon.asgi import Request, Response

from rota.access.scopes import Gate, Scope
from rota.errors import NotFoundError
from rota.hub import Hub
from rota.routing.domains import Naming, WantedDomain
from rota.routing.names import shown
from rota.store.certificates import Certificates, Kept, Order
from rota.store.domains import Domain, Domains
from rota.web.bodies import answered, queried, received
from rota.web.endpoint import Answer, Routes, endpoint

API = "/api/domains"
LONGEST = 200_000  # bytes of a body with a certificate and a key
Text = Annotated[str, msgspec.Meta(max_length=1100)]
Pem = Annotated[str, msgspec.Meta(max_length=60_000)]


class NewDomain(msgspec.Struct, forbid_unknown_fields=True):
    """A name for an app; with a certificate and its key in PEM, or with `acme` one from the authority."""

    app: Text
    name: Text
    acme: bool = False
    certificate: Pem = ""
    key: Pem = ""


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """Whose names to answer; without an app all."""

    app: Annotated[str, msgspec.Meta(max_length=40)] = ""


class DomainDocument(msgspec.Struct):
    """One name.

    `source` is where its certificate comes from: none, file or acme; `served_at`
    when the proxy was last seen to serve that very one, and `reason` why there
    is none from the authority yet.
    """

    name: str
    shown: str
    app: str
    source: str
    ends_at: datetime | None
    served_at: datetime | None
    reason: str
    created_at: datetime


class DomainsDocument(msgspec.Struct):
    """Names, by app and name; `below` is the domain under which each app has one by itself."""

    domains: list[DomainDocument]
    below: str


class DomainsResource:
    """All of them."""

    def __init__(self, hub: Hub, naming: Naming) -> None:
        """Show and change this hub's."""
        self._domains = Domains(hub.database)
        self._certificates = Certificates(hub.database)
        self._below = hub.settings.routing.domain
        self._naming = naming

    @endpoint(
        Scope.APPS_READ, "Names of apps", query=Asked, answers={200: Answer("The names.", DomainsDocument)}
    )
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer the names of an app, or of all."""
        kept = {each.name: each for each in await self._certificates.all()}
        orders = await self._certificates.orders()
        found = await self._domains.all(queried(req, Asked).app)
        documents = [_document(each, kept.get(each.name), orders.get(each.name)) for each in found]
        answered(resp, DomainsDocument(documents, self._below))

    @endpoint(
        Scope.APPS_WRITE,
        "Give a name to an app",
        body=NewDomain,
        answers={201: Answer("The name.", DomainDocument), 404: Answer("There is no such app.")},
    )
    async def on_post(self, req: Request, resp: Response) -> None:
        """Give a name to an app, or another certificate to a name that it has."""
        new = await received(req, NewDomain, LONGEST)
        wanted = WantedDomain(
            app=new.app, name=new.name, acme=new.acme, certificate=new.certificate, key=new.key
        )
        made = await self._naming.add(req.context.principal.actor, wanted)
        answered(resp, _document(made, None, None), HTTPStatus.CREATED)


class DomainResource:
    """One of them."""

    def __init__(self, naming: Naming) -> None:
        """Change this hub's."""
        self._naming = naming

    @endpoint(
        Scope.APPS_WRITE,
        "Take a name from its app",
        answers={200: Answer("The name, as it was.", DomainDocument)},
    )
    async def on_delete(self, req: Request, resp: Response, name: str) -> None:
        """Take a name from its app, with its certificate."""
        removed = await self._naming.remove(req.context.principal.actor, name)
        answered(resp, _document(removed, None, None))


class AnswerResource:
    """What a certificate authority asks at a name, to see that the name leads here (ACME, HTTP-01)."""

    def __init__(self, hub: Hub) -> None:
        """Answer what the worker has prepared."""
        self._certificates = Certificates(hub.database)

    @endpoint(
        Gate.PUBLIC,
        "What a certificate authority asks",
        answers={200: Answer("The answer.", media="text/plain")},
    )
    async def on_get(self, req: Request, resp: Response, token: str) -> None:
        """Answer a token that is awaited."""
        answer = await self._certificates.answer(token)
        if answer is None:
            raise NotFoundError("No authority is awaited with this token.", "`rota domain list` shows why.")
        resp.content_type = "text/plain"
        resp.set_header("Cache-Control", "no-store")
        resp.data = answer.encode()


def _document(domain: Domain, kept: Kept | None, order: Order | None) -> DomainDocument:
    return DomainDocument(
        domain.name,
        shown(domain.name),
        domain.app,
        domain.source.value,
        kept.ends_at if kept else None,
        kept.served_at if kept else None,
        order.reason if order else "",
        domain.created_at,
    )


def add_routes(routes: Routes, hub: Hub, naming: Naming) -> None:
    """Add them."""
    routes.add(API, DomainsResource(hub, naming))
    routes.add(f"{API}/{{name}}", DomainResource(naming))
    routes.add("/.well-known/acme-challenge/{token}", AnswerResource(hub))
