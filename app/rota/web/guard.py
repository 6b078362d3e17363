"""Lets a request through to its route, or says why not. Nothing else decides who may."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import falcon
from falcon.asgi import Request, Response

from rota.access.principal import Principal
from rota.access.scopes import Gate
from rota.web.endpoint import Routes
from rota.web.limits import RateLimits
from rota.web.origin import check_origin
from rota.web.peer import Peers
from rota.web.problems import Problem

Authenticate = Callable[[Request], Awaitable[Principal | None]]

SIGN_IN = "/sign-in"


class Guard:
    """Falcon middleware: finds out who asks, and holds what the route needs against it.

    `req.context.principal` is the caller where the route is not public. What a
    browser would send by itself, a cookie or a form, changes nothing at the
    bidding of another site.
    """

    def __init__(self, routes: Routes, authenticate: Authenticate, peers: Peers, limits: RateLimits) -> None:
        """Guard these routes."""
        self._routes = routes
        self._authenticate = authenticate
        self._peers = peers
        self._limits = limits

    async def process_resource(
        self, req: Request, resp: Response, resource: object, params: dict[str, Any]
    ) -> None:
        """Raise 401 or 403 with the remedy, or lead a person to the sign-in page."""
        declared = self._routes.find(req.uri_template, req.method)
        if declared is None:
            return
        address = self._peers.client(req)
        if declared.needs in (Gate.PUBLIC, Gate.OWN):
            if declared.limited:
                self._limits.stranger(address)
            if declared.form:
                check_origin(req, self._peers)
            return
        self._limits.newcomer(address)
        principal = await self._authenticate(req)
        if principal is None:
            self._limits.stranger(address)
            if declared.page and req.method in ("GET", "HEAD") and "text/html" in req.accept:
                there = f"{SIGN_IN}?to={quote(req.relative_uri, safe='')}"
                raise falcon.HTTPSeeOther(there, headers={"Cache-Control": "no-store"})
            raise Problem(
                HTTPStatus.UNAUTHORIZED,
                "Not signed in",
                "This needs an account or an API token.",
                "Send Authorization: Bearer TOKEN; `rota token create` or the page Tokens makes one.",
                headers={"WWW-Authenticate": 'Bearer realm="rota"'},
            )
        self._limits.caller(principal)
        if principal.session is not None:
            check_origin(req, self._peers)
        if not principal.may(declared.needs):
            raise Problem(
                HTTPStatus.FORBIDDEN,
                "Not allowed",
                f"This needs the scope {declared.needs}, which {principal.actor} has not.",
                f"Use a token or an account with the scope {declared.needs}.",
            )
        req.context.principal = principal
