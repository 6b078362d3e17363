"""Accounts, tokens and sessions, made in a hub's database behind its back and quickly."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar
from urllib.parse import urlencode

from tests.support.raw import Answer, Connection
from tests.support.settings import NO_SETTINGS

from rota import wiring
from rota.access.credential import new_cookie, new_token
from rota.access.passwords import hashed
from rota.access.scopes import Scope
from rota.settings import Settings, load
from rota.store.accounts import Accounts
from rota.store.database import Database
from rota.store.sessions import Sessions
from rota.store.tokens import Tokens

T = TypeVar("T")
# Either what a hub was started with, or its settings.
Where = Mapping[str, str] | Settings

PASSWORD = "correct horse battery"
COOKIE = "rota-session"
_numbers = itertools.count(1)


async def new_account(database: Database, *scopes: Scope, name: str = "", password: str = "") -> int:
    """Make an account with these scopes; without a password nobody can sign in to it. Return its id."""
    kept = hashed(password) if password else ""
    return await Accounts(database).create(name or f"account-{next(_numbers)}", kept, scopes)


async def new_bearer(database: Database, *scopes: Scope, account: int | None = None, secret: str = "") -> str:
    """Make a token with these scopes, of a new account if none is given; return it."""
    secret = secret or new_token()
    owner = await new_account(database, *scopes) if account is None else account
    await Tokens(database).create(owner, f"token-{next(_numbers)}", secret, scopes)
    return secret


async def new_session(database: Database, *scopes: Scope, account: int | None = None) -> str:
    """Begin a session, of a new account if none is given; return its cookie's value."""
    cookie = new_cookie()
    owner = await new_account(database, *scopes) if account is None else account
    await Sessions(database).begin(owner, cookie)
    return cookie


def account(where: Where, name: str, *scopes: Scope, password: str = PASSWORD) -> int:
    """Make an account that can sign in; return its id."""
    return with_database(where, lambda database: new_account(database, *scopes, name=name, password=password))


def bearer(where: Where, *scopes: Scope, secret: str = "") -> str:
    """Return the header line of a new token with these scopes."""
    return f"Authorization: Bearer {token(where, *scopes, secret=secret)}"


def token(where: Where, *scopes: Scope, secret: str = "") -> str:
    """Return a new token with these scopes, a random one unless it is given."""
    return with_database(where, lambda database: new_bearer(database, *scopes, secret=secret))


def session(where: Where, *scopes: Scope, account: int | None = None) -> str:
    """Return the header line of the cookie of a new session, of a new account if none is given."""
    value = with_database(where, lambda database: new_session(database, *scopes, account=account))
    return f"Cookie: {COOKIE}={value}"


def sign_in(port: int, name: str, password: str, *headers: str) -> Answer:
    """Send the form of the sign-in page as a browser does; return the answer."""
    return send_form(port, "/sign-in", {"name": name, "password": password, "to": "/"}, *headers)


def send_json(port: int, method: str, path: str, document: object, *headers: str) -> Answer:
    """Send a JSON document as a program does; return the answer."""
    body = json.dumps(document).encode()
    lines = (
        f"{method} {path} HTTP/1.1",
        "Host: hub.example",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    )
    with Connection(port) as connection:
        connection.send("".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1") + body)
        return connection.answer()


def send_form(port: int, path: str, form: Mapping[str, str], *headers: str) -> Answer:
    """Send a form of one of the hub's pages as a browser does; return the answer."""
    body = urlencode(form)
    lines = (
        f"POST {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
        f"Origin: http://127.0.0.1:{port}",
        "Accept: text/html",
        *headers,
    )
    with Connection(port) as connection:
        connection.send("".join(f"{line}\r\n" for line in (*lines, "")).encode() + body.encode())
        return connection.answer()


def with_database(where: Where, work: Callable[[Database], Awaitable[T]]) -> T:
    """Open a hub's database beside it, and return what the work on it gives."""

    async def opened() -> T:
        database = wiring.make_database(settings_of(where))
        await database.open()
        try:
            return await work(database)
        finally:
            await database.close()

    return asyncio.run(opened())


def settings_of(where: Where) -> Settings:
    """Return the settings of a hub."""
    return where if isinstance(where, Settings) else load(file=NO_SETTINGS, environ=where).settings
