"""`/api/accounts`, `/api/settings` and the page `/settings`: for administrators."""

from datetime import datetime
from http import HTTPStatus
from typing import Any

import msgspec
from falcon.asgi import Request, Response

from rota.access.names import check_account_name, check_password, is_account_name
from rota.access.passwords import Passwords
from rota.access.scopes import Scope
from rota.acts.act import Act
from rota.acts.recorder import perform
from rota.errors import InputError, NotFoundError
from rota.hub import Hub
from rota.settings.describe import describe
from rota.store.accounts import Account, Accounts, Change
from rota.tlog.records import Logged
from rota.web.bodies import answered, is_form, received, see
from rota.web.endpoint import HTML, ON_TO_PAGE, Answer, Routes, endpoint
from rota.web.pages import Pages

PAGE = "/settings"


class NewAccount(msgspec.Struct, forbid_unknown_fields=True):
    """An account to make."""

    name: str
    password: str
    scopes: list[Scope]


class AccountChange(msgspec.Struct, forbid_unknown_fields=True):
    """What to change of an account; what is left out stays."""

    scopes: list[Scope] | None = None
    disabled: bool | None = None
    password: str | None = None


class AccountDocument(msgspec.Struct, frozen=True):
    """An account."""

    id: int
    name: str
    scopes: list[str]
    disabled: bool
    created_at: datetime


class AccountsResource:
    """Every account, and where one is made."""

    def __init__(self, hub: Hub, passwords: Passwords) -> None:
        """Serve this hub's."""
        self._tlog = hub.tlog
        self._accounts = Accounts(hub.database)
        self._passwords = passwords

    @endpoint(
        Scope.ADMIN,
        "Every account",
        answers={200: Answer("The accounts, by name.", document=list[AccountDocument])},
    )
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer the list."""
        answered(resp, [_document(each) for each in await self._accounts.all()])

    @endpoint(
        Scope.ADMIN,
        "Make an account",
        answers={
            201: Answer("The account.", document=AccountDocument),
            303: ON_TO_PAGE,
        },
        body=NewAccount,
        form=True,
    )
    async def on_post(self, req: Request, resp: Response) -> None:
        """Make an account."""
        new = await received(req, NewAccount)
        check_account_name(new.name)
        kept = await self._passwords.hashed(check_password(new.password))

        async def work(_: Logged) -> int:
            return await self._accounts.create(new.name, kept, new.scopes)

        await perform(
            self._tlog, _act(req, "account.create", new.name, {"scopes": sorted(frozenset(new.scopes))}), work
        )
        if is_form(req):
            see(resp, PAGE)
        else:
            answered(resp, _document(await self._accounts.find(new.name)), HTTPStatus.CREATED)


class AccountResource:
    """One account."""

    def __init__(self, hub: Hub, passwords: Passwords) -> None:
        """Serve this hub's."""
        self._tlog = hub.tlog
        self._accounts = Accounts(hub.database)
        self._passwords = passwords

    @endpoint(
        Scope.ADMIN,
        "Change an account's scopes or password, disable or enable it",
        answers={200: Answer("The account as it is now.", document=AccountDocument)},
        body=AccountChange,
    )
    async def on_patch(self, req: Request, resp: Response, name: str) -> None:
        """Change it."""
        await self._change(req, name)
        answered(resp, _document(await self._accounts.find(name)))

    @endpoint(
        Scope.ADMIN,
        "Change an account, by a form",
        answers={303: Answer("It is changed; on to the page.", media="")},
        body=AccountChange,
        form=True,
    )
    async def on_post(self, req: Request, resp: Response, name: str) -> None:
        """Change it, and lead back to the page."""
        await self._change(req, name)
        see(resp, PAGE)

    async def _change(self, req: Request, name: str) -> None:
        given = await received(req, AccountChange)
        if given == AccountChange():
            raise InputError("There is nothing to change.", "Give scopes, disabled or password.")
        if not is_account_name(name):
            raise NotFoundError("There is no such account.", "GET /api/accounts lists them.")
        await self._accounts.find(name)
        kept = None
        if given.password is not None:
            kept = await self._passwords.hashed(check_password(given.password))

        async def work(_: Logged) -> None:
            await self._accounts.change(name, Change(given.scopes, given.disabled, kept))

        details: dict[str, Any] = {"password": "changed"} if kept else {}
        if given.scopes is not None:
            details["scopes"] = sorted(frozenset(given.scopes))
        if given.disabled is not None:
            details["disabled"] = given.disabled
        await perform(self._tlog, _act(req, "account.change", name, details), work)


class SettingsResource:
    """The settings in force in this process, secrets redacted; the page shows the accounts too."""

    def __init__(self, hub: Hub, pages: Pages) -> None:
        """Show this hub's."""
        self._shown = describe(hub.settings)
        self._accounts = Accounts(hub.database)
        self._pages = pages

    @endpoint(
        Scope.ADMIN,
        "The settings in force in the process that answers, secrets redacted",
        answers={200: Answer("Values by section.key.", document=dict[str, Any])},
    )
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer the settings."""
        answered(resp, self._shown)

    @endpoint(
        Scope.ADMIN,
        "The page of settings and accounts",
        answers={200: Answer("The page.", media=HTML)},
        page=True,
    )
    async def on_get_page(self, req: Request, resp: Response) -> None:
        """Answer the page."""
        accounts = await self._accounts.all()
        self._pages.show(
            req, resp, "settings.html", settings=self._shown, accounts=accounts, scopes=list(Scope)
        )


def add_routes(routes: Routes, hub: Hub, pages: Pages, passwords: Passwords) -> None:
    """Add them to a web process's app."""
    settings = SettingsResource(hub, pages)
    routes.add("/api/accounts", AccountsResource(hub, passwords))
    routes.add("/api/accounts/{name}", AccountResource(hub, passwords))
    routes.add("/api/settings", settings)
    routes.add(PAGE, settings, suffix="page")


def _act(req: Request, kind: str, name: str, details: dict[str, Any]) -> Act:
    return Act(kind=kind, actor=req.context.principal.actor, subject=f"account:{name}", details=details)


def _document(account: Account) -> AccountDocument:
    return AccountDocument(
        id=account.id,
        name=account.name,
        scopes=sorted(account.scopes),
        disabled=account.disabled,
        created_at=account.created_at,
    )
