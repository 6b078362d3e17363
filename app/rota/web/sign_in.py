"""`/sign-in` and `/sign-out`."""

import re
from dataclasses import dataclass

import msgspec
import structlog
from falcon.asgi import Request, Response

from rota.access.credential import new_cookie
from rota.access.names import is_account_name
from rota.access.passwords import Passwords
from rota.access.scopes import Gate, Scope
from rota.acts.act import Act
from rota.acts.recorder import perform
from rota.hub import Hub
from rota.store.accounts import Account, Accounts
from rota.store.sessions import Sessions
from rota.tlog.records import Logged
from rota.web.bodies import queried, received, see
from rota.web.cookies import SessionCookie
from rota.web.endpoint import HTML, Answer, Routes, endpoint
from rota.web.limits import RateLimits
from rota.web.pages import Pages
from rota.web.peer import Peers

HOME = "/"
WRONG = "The name or the password is wrong."

# A path of ours, and not //elsewhere, nor what a browser would take for that.
_LOCAL = re.compile(r"/(?![/\\])[!-\[\]-~]*")

log = structlog.get_logger("rota.access")


class Arrival(msgspec.Struct, forbid_unknown_fields=True):
    """The query of the sign-in page: where to go afterwards."""

    to: str = HOME


class SignIn(msgspec.Struct, forbid_unknown_fields=True):
    """A sign-in."""

    name: str
    password: str
    to: str = HOME


@dataclass(frozen=True)
class Admitted:
    """Who knew an account's password, and the hash that it fitted."""

    account: Account
    password: str


class Doorman:
    """Lets in who knows an account's password."""

    def __init__(self, hub: Hub, passwords: Passwords, peers: Peers, limits: RateLimits) -> None:
        """Ask this hub's accounts."""
        self._peers = peers
        self._limits = limits
        self._accounts = Accounts(hub.database)
        self._passwords = passwords

    async def admit(self, req: Request, name: str, password: str) -> Admitted | None:
        """Return who it is; None where name or password is wrong, after the same time.

        Raises Problem where too many are tried.
        """
        self._limits.sign_in(self._peers.client(req), name)
        kept = await self._accounts.password(name) if is_account_name(name) else None
        if not await self._passwords.fits(kept, password) or kept is None:
            # Somebody may have typed the password where the name goes.
            log.warning("sign-in refused", account=name if kept else "unknown")
            return None
        return Admitted(await self._accounts.find(name), kept)


class SignInResource:
    """The page where people sign in."""

    def __init__(self, hub: Hub, pages: Pages, cookie: SessionCookie, doorman: Doorman) -> None:
        """Let people in to this hub."""
        self._tlog = hub.tlog
        self._sessions = Sessions(hub.database)
        self._pages = pages
        self._cookie = cookie
        self._doorman = doorman

    @endpoint(
        Gate.PUBLIC,
        "The page to sign in",
        answers={200: Answer("The page.", media=HTML)},
        query=Arrival,
        page=True,
    )
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer the form."""
        self._show(req, resp, local(queried(req, Arrival).to))

    @endpoint(
        Gate.PUBLIC,
        "Sign in by a form: begins a session",
        answers={303: Answer("Signed in; on to the page.", media="")},
        body=SignIn,
        page=True,
        form=True,
    )
    async def on_post(self, req: Request, resp: Response) -> None:
        """Begin a session and set its cookie, or say that name or password is wrong: never which."""
        given = await received(req, SignIn)
        to = local(given.to)
        admitted = await self._doorman.admit(req, given.name, given.password)
        if admitted is None:
            self._show(req, resp, to, WRONG)
            resp.status = "403 Forbidden"
            return
        account, cookie = admitted.account, new_cookie()

        async def begin(_: Logged | None = None) -> int:
            return await self._sessions.begin(account.id, cookie, admitted.password)

        if Scope.ADMIN in account.scopes:
            actor = f"account:{account.name}"
            await perform(self._tlog, Act(kind="session.begin", actor=actor, subject=actor), begin)
        else:
            await begin()
        self._cookie.set(req, resp, cookie)
        see(resp, to)

    def _show(self, req: Request, resp: Response, to: str, wrong: str = "") -> None:
        self._pages.show(req, resp, "sign-in.html", to=to, wrong=wrong)


class SignOutResource:
    """Where a session ends."""

    def __init__(self, hub: Hub, cookie: SessionCookie) -> None:
        """End sessions of this hub."""
        self._sessions = Sessions(hub.database)
        self._cookie = cookie

    @endpoint(
        Gate.SIGNED_IN,
        "Sign out: ends the session",
        answers={303: Answer("Signed out; on to the sign-in.", media="")},
        page=True,
        form=True,
    )
    async def on_post(self, req: Request, resp: Response) -> None:
        """End the session of the cookie; of a token nothing ends."""
        session = req.context.principal.session
        if session is not None:
            await self._sessions.finish(session)
        self._cookie.clear(req, resp)
        see(resp, "/sign-in")


def add_routes(routes: Routes, hub: Hub, pages: Pages, cookie: SessionCookie, doorman: Doorman) -> None:
    """Add them to a web process's app."""
    routes.add("/sign-in", SignInResource(hub, pages, cookie, doorman))
    routes.add("/sign-out", SignOutResource(hub, cookie))


def local(to: str) -> str:
    """Return where to go after a sign-in: a path of ours, else the first page."""
    return to if _LOCAL.fullmatch(to) else HOME
