"""`/api/me`: who is asking; and `/api/login`, where a program gets a token for a password."""

from http import HTTPStatus
from typing import Literal

import msgspec
from falcon.asgi import Request, Response

from rota.access.names import check_password
from rota.access.passwords import Passwords
from rota.access.principal import Principal
from rota.access.scopes import Gate
from rota.acts.act import Act
from rota.acts.recorder import perform
from rota.hub import Hub
from rota.store.accounts import Accounts, Change
from rota.tlog.records import Logged
from rota.web.bodies import answered, is_form, received, see
from rota.web.endpoint import ON_TO_PAGE, Answer, Routes, endpoint
from rota.web.problems import Problem
from rota.web.sign_in import WRONG, Doorman
from rota.web.tokens import PAGE, Days, IssuedToken, Issuer, NewToken


class Me(msgspec.Struct, frozen=True):
    """A caller. `token` is the id of the token that it shows, if it shows one."""

    account: str
    by: Literal["session", "token"]
    token: int | None
    scopes: list[str]


class Login(msgspec.Struct, forbid_unknown_fields=True):
    """A program's sign-in: it gets a token of this name, with every scope of the account."""

    name: str
    password: str
    token_name: str
    days: Days | None = None


class NewPassword(msgspec.Struct, forbid_unknown_fields=True):
    """A caller's own new password."""

    old: str
    new: str


class MeResource:
    """The caller itself."""

    def __init__(self, hub: Hub, passwords: Passwords, doorman: Doorman) -> None:
        """Serve this hub's."""
        self._tlog = hub.tlog
        self._accounts = Accounts(hub.database)
        self._passwords = passwords
        self._doorman = doorman

    @endpoint(
        Gate.SIGNED_IN, "Who is asking, and what it may do", answers={200: Answer("The caller.", document=Me)}
    )
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer who is asking."""
        asking: Principal = req.context.principal
        by: Literal["session", "token"] = "token" if asking.session is None else "session"
        answered(resp, Me(asking.name, by, asking.token, sorted(asking.scopes)))

    @endpoint(
        Gate.SIGNED_IN,
        "Change your own password; ends your other sessions",
        answers={204: Answer("It is changed.", media=""), 303: ON_TO_PAGE},
        body=NewPassword,
        form=True,
    )
    async def on_post_password(self, req: Request, resp: Response) -> None:
        """Change it, if the old one is right."""
        asking: Principal = req.context.principal
        given = await received(req, NewPassword)
        check_password(given.new)
        if await self._doorman.admit(req, asking.name, given.old) is None:
            raise _wrong("The old password is wrong.")
        kept = await self._passwords.hashed(given.new)

        async def work(_: Logged) -> None:
            await self._accounts.change(asking.name, Change(password=kept), kept_session=asking.session)

        act = Act(kind="account.password", actor=asking.actor, subject=f"account:{asking.name}")
        await perform(self._tlog, act, work)
        if is_form(req):
            see(resp, PAGE)
        else:
            resp.status = "204 No Content"


class LoginResource:
    """Where a program gets a token for a name and a password."""

    def __init__(self, hub: Hub, doorman: Doorman) -> None:
        """Let programs in to this hub."""
        self._doorman = doorman
        self._issuer = Issuer(hub)

    @endpoint(
        Gate.PUBLIC,
        "Make an API token by an account's name and password",
        answers={
            201: Answer("The token; its secret is shown this once.", document=IssuedToken),
            403: Answer("Name or password is wrong."),
        },
        body=Login,
    )
    async def on_post(self, req: Request, resp: Response) -> None:
        """Make a token, or say that name or password is wrong: never which."""
        given = await received(req, Login)
        admitted = await self._doorman.admit(req, given.name, given.password)
        if admitted is None:
            raise _wrong(WRONG)
        account = admitted.account
        principal = Principal(account.id, account.name, account.scopes, session=0)
        new = NewToken(given.token_name, sorted(account.scopes), given.days)
        answered(resp, await self._issuer.issue(principal, new), HTTPStatus.CREATED)


def add_routes(routes: Routes, hub: Hub, passwords: Passwords, doorman: Doorman) -> None:
    """Add them to a web process's app."""
    me = MeResource(hub, passwords, doorman)
    routes.add("/api/login", LoginResource(hub, doorman))
    routes.add("/api/me", me)
    routes.add("/api/me/password", me, suffix="password")


def _wrong(detail: str) -> Problem:
    return Problem(
        HTTPStatus.FORBIDDEN,
        "Not let in",
        detail,
        "Try again; on a host of the hub, `rota admin password NAME` sets a new one.",
    )
