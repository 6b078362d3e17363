"""`/api/tokens` and the page `/tokens`: a caller's own API tokens, for administrators everybody's."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Literal

import msgspec
from falcon.asgi import Request, Response

from rota.access.credential import new_token
from rota.access.names import check_token_name
from rota.access.principal import Principal
from rota.access.scopes import Gate, Scope, covers, granted, written
from rota.acts.act import Act
from rota.acts.recorder import perform
from rota.errors import InputError
from rota.hub import Hub
from rota.store.tokens import Token, Tokens
from rota.tlog.records import Logged
from rota.web.bodies import answered, is_form, queried, received, see
from rota.web.endpoint import HTML, NUMBER, Answer, Routes, endpoint
from rota.web.pages import Pages
from rota.web.problems import Problem

PAGE = "/tokens"
DAY = 86400  # seconds

Days = Annotated[int, msgspec.Meta(ge=1, le=3650)]


class NewToken(msgspec.Struct, forbid_unknown_fields=True):
    """A token to make: good for so many days, with none of them for ever."""

    name: str
    scopes: list[Scope]
    days: Days | None = None


class Whose(msgspec.Struct, forbid_unknown_fields=True):
    """Whose tokens to list."""

    of: Literal["me", "all"] = "me"


class TokenDocument(msgspec.Struct, frozen=True):
    """A token, without its secret."""

    id: int
    account: str
    name: str
    scopes: list[str]
    state: str
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None
    revoked_at: datetime | None


class IssuedToken(msgspec.Struct, frozen=True):
    """A token just made: `token` is its secret, which is shown this once."""

    id: int
    account: str
    name: str
    scopes: list[str]
    token: str


class Issuer:
    """Makes and revokes tokens, each as an act."""

    def __init__(self, hub: Hub) -> None:
        """Make tokens of this hub's accounts."""
        self._tlog = hub.tlog
        self._tokens = Tokens(hub.database)

    async def issue(self, principal: Principal, new: NewToken) -> IssuedToken:
        """Make a token that may do what the caller may, or less. Raises InputError and ConflictError."""
        check_token_name(new.name)
        if not covers(principal.scopes, new.scopes):
            lacking = written(frozenset(new.scopes) - granted(new.scopes, principal.scopes))
            raise InputError(f"This token would have scopes that you have not: {lacking}.", "Leave them out.")
        secret = new_token()
        details = {"scopes": sorted(new.scopes), "days": new.days}
        subject = f"token:{principal.name}/{new.name}"

        async def make(_: Logged) -> int:
            seconds = None if new.days is None else new.days * DAY
            return await self._tokens.create(principal.account, new.name, secret, new.scopes, seconds)

        act = Act(kind="token.create", actor=principal.actor, subject=subject, details=details)
        number = await perform(self._tlog, act, make)
        return IssuedToken(number, principal.name, new.name, sorted(frozenset(new.scopes)), secret)

    async def revoke(self, principal: Principal, number: int) -> None:
        """Make a token good no longer, if it is not revoked already. Raises NotFoundError and Problem.

        A token ends none that may do more than it.
        """
        token = await self._tokens.find(number, None if _all(principal) else principal.account)
        if token.revoked_at is not None:
            return
        if principal.token not in (None, number) and not covers(principal.scopes, token.scopes):
            lacking = written(token.scopes - granted(token.scopes, principal.scopes))
            raise Problem(
                HTTPStatus.FORBIDDEN,
                "Not allowed",
                f"That token has scopes which this one has not: {lacking}.",
                "Revoke it on the page Tokens, or with a token that may as much.",
            )

        async def work(_: Logged) -> bool:
            return await self._tokens.revoke(number)

        subject = f"token:{token.account}/{token.name}"
        await perform(self._tlog, Act(kind="token.revoke", actor=principal.actor, subject=subject), work)


class TokensResource:
    """The list, and where one is made."""

    def __init__(self, hub: Hub, pages: Pages) -> None:
        """Serve this hub's."""
        self._tokens = Tokens(hub.database)
        self._issuer = Issuer(hub)
        self._pages = pages

    @endpoint(
        Gate.SIGNED_IN,
        "API tokens: your own; with ?of=all everybody's, which needs the scope admin",
        answers={200: Answer("The tokens, the newest first.", document=list[TokenDocument])},
        query=Whose,
    )
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer the list."""
        principal: Principal = req.context.principal
        everybody = queried(req, Whose).of == "all"
        if everybody and not _all(principal):
            raise Problem(
                HTTPStatus.FORBIDDEN,
                "Not allowed",
                "Everybody's tokens need the scope admin.",
                "Leave out ?of=all: yours need none.",
            )
        tokens = await self._tokens.all(None if everybody else principal.account)
        answered(resp, [_document(each) for each in tokens])

    @endpoint(
        Gate.SIGNED_IN,
        "Make an API token",
        answers={201: Answer("The token; its secret is shown this once.", document=IssuedToken)},
        body=NewToken,
        form=True,
    )
    async def on_post(self, req: Request, resp: Response) -> None:
        """Make a token. A form is answered by the page that shows its secret: nowhere else may it stand."""
        new = await received(req, NewToken)
        if is_form(req) and not new.scopes:
            raise InputError("This token would do nothing.", "Tick what it may do.")
        issued = await self._issuer.issue(req.context.principal, new)
        answered(resp, issued, HTTPStatus.CREATED)
        if is_form(req):
            await self._show(req, resp, issued)

    @endpoint(
        Gate.SIGNED_IN,
        "The page of your API tokens",
        answers={200: Answer("The page.", media=HTML)},
        page=True,
    )
    async def on_get_page(self, req: Request, resp: Response) -> None:
        """Answer the page."""
        await self._show(req, resp, None)

    async def _show(self, req: Request, resp: Response, issued: IssuedToken | None) -> None:
        principal: Principal = req.context.principal
        resp.data = None
        self._pages.show(
            req,
            resp,
            "tokens.html",
            tokens=await self._tokens.all(None if _all(principal) else principal.account),
            issued=issued,
            scopes=[scope for scope in Scope if covers(principal.scopes, (scope,))],
        )


class TokenResource:
    """One token."""

    def __init__(self, hub: Hub) -> None:
        """Serve this hub's."""
        self._issuer = Issuer(hub)

    @endpoint(
        Gate.SIGNED_IN,
        "Revoke an API token: yours; an administrator, anybody's",
        answers={204: Answer("It is revoked, if it was not.", media="")},
    )
    async def on_delete(self, req: Request, resp: Response, token: int) -> None:
        """Revoke it."""
        await self._issuer.revoke(req.context.principal, token)
        resp.status = "204 No Content"

    @endpoint(
        Gate.SIGNED_IN,
        "Revoke an API token, by a form",
        answers={303: Answer("It is revoked; on to the page.", media="")},
        form=True,
    )
    async def on_post_revoke(self, req: Request, resp: Response, token: int) -> None:
        """Revoke it, and lead back to the page."""
        await self._issuer.revoke(req.context.principal, token)
        see(resp, PAGE)


def add_routes(routes: Routes, hub: Hub, pages: Pages) -> None:
    """Add them to a web process's app."""
    tokens, token = TokensResource(hub, pages), TokenResource(hub)
    routes.add("/api/tokens", tokens)
    routes.add(f"/api/tokens/{{token:{NUMBER}}}", token)
    routes.add(f"/api/tokens/{{token:{NUMBER}}}/revoke", token, suffix="revoke")
    routes.add(PAGE, tokens, suffix="page")


def _all(principal: Principal) -> bool:
    return Scope.ADMIN in principal.scopes


def _document(token: Token) -> TokenDocument:
    return TokenDocument(
        id=token.id,
        account=token.account,
        name=token.name,
        scopes=sorted(token.scopes),
        state=token.state,
        created_at=token.created_at,
        expires_at=token.expires_at,
        used_at=token.used_at,
        revoked_at=token.revoked_at,
    )
