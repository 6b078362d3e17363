"""Every route, asked by everybody: made from the table of routes, so that a new route is in it by itself."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from falcon import testing
from tests.support import access
from tests.support.routes import filled, routes_of, streams
from tests.support.settings import sqlite_settings

from rota.access.scopes import Gate, Scope, covers
from rota.hub import Hub
from rota.store.accounts import Accounts, Change
from rota.store.tokens import Tokens
from rota.web.endpoint import Endpoint, Routes
from rota.web.openapi import UNSAFE, statuses

SAME, CROSS = {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "cross-site"}
NOBODY = (401, 303)


@dataclass
class Caller:
    """One who asks. `scopes` is None where nobody is known."""

    name: str
    scopes: frozenset[Scope] | None
    headers: dict[str, str] = field(default_factory=dict)
    session: bool = False


class Asked:
    """A hub in this process, and everybody who may ask it."""

    def __init__(self, hub: Hub, routes: Routes, conductor: testing.ASGIConductor) -> None:
        self.hub, self.routes, self.conductor = hub, routes, conductor
        self.callers: list[Caller] = []

    async def status(self, path: str, method: str, declared: Endpoint, caller: Caller, **more: str) -> int:
        """Ask one route; return the status of its answer."""
        headers = {**caller.headers, **more}
        if caller.session:
            # Signing out ends it: each request has a session of its own.
            scopes = caller.scopes or frozenset()
            cookie = await access.new_session(self.hub.database, *scopes)
            headers["Cookie"] = f"{access.COOKIE}={cookie}"
        body = b"{}" if declared.body is not None else b""
        if body:
            headers["Content-Type"] = "application/json"
        if streams(declared):
            async with self.conductor.simulate_get_stream(filled(path), headers=headers) as answer:
                return int(answer.status_code)
        answered = await self.conductor.simulate_request(method, filled(path), headers=headers, body=body)
        return int(answered.status_code)


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[Asked]:
    """Give a hub, and callers: nobody, each scope alone, all of them, none, and those shut out."""
    settings = sqlite_settings(
        tmp_path, ROTA_LIMITS_STRANGER="0", ROTA_LIMITS_CALLER="0", ROTA_SERVER_ROLES="web"
    )
    hub, routes = routes_of(settings)
    async with testing.ASGIConductor(as_served(routes.app)) as conductor:
        await hub.settled.wait()
        here = Asked(hub, routes, conductor)
        here.callers = [caller async for caller in everybody(hub)]
        yield here


def as_served(app: Any) -> Any:
    """Give an app scopes as a server gives them: those of the test client can be read only once."""

    async def served(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope = {
                **scope,
                "headers": [tuple(pair) for pair in scope["headers"]],
                "client": ("192.0.2.1", 4711),
            }
        await app(scope, receive, send)

    return served


async def everybody(hub: Hub) -> AsyncIterator[Caller]:
    database = hub.database
    yield Caller("anonymous", None)
    for scope in Scope:
        secret = await access.new_bearer(database, scope)
        yield Caller(f"token {scope}", frozenset({scope}), {"Authorization": f"Bearer {secret}"})
    secret = await access.new_bearer(database)
    yield Caller("token without scopes", frozenset(), {"Authorization": f"Bearer {secret}"})
    yield Caller("session admin", frozenset({Scope.ADMIN}), SAME, session=True)
    yield Caller("session hub:read", frozenset({Scope.HUB_READ}), SAME, session=True)
    revoked = await access.new_bearer(database, Scope.ADMIN)
    for token in await Tokens(database).all():
        if token.scopes == {Scope.ADMIN} and token.used_at is None and token.name == (await newest(hub)):
            await Tokens(database).revoke(token.id)
    yield Caller("revoked token", None, {"Authorization": f"Bearer {revoked}"})
    account = await access.new_account(database, Scope.ADMIN, name="disabled")
    disabled = await access.new_bearer(database, Scope.ADMIN, account=account)
    await Accounts(database).change("disabled", Change(disabled=True))
    yield Caller("token of a disabled account", None, {"Authorization": f"Bearer {disabled}"})
    yield Caller("no token at all", None, {"Authorization": "Bearer rota_nonsense"})
    yield Caller("a header that says who", None, {"X-Forwarded-User": "root", "X-Hub-User": "root"})


async def newest(hub: Hub) -> str:
    """Return the name of the token made last."""
    return (await Tokens(hub.database).all())[0].name


def verdict(declared: Endpoint, caller: Caller) -> str:
    """Return what the table says of a caller: let in, unknown, or forbidden."""
    if declared.needs in (Gate.PUBLIC, Gate.OWN):
        return "in"
    if caller.scopes is None:
        return "unknown"
    return (
        "in"
        if declared.needs is Gate.SIGNED_IN or covers(caller.scopes, [Scope(declared.needs)])
        else "forbidden"
    )


def faults(path: str, method: str, declared: Endpoint, caller: Caller, status: int) -> Iterator[str]:
    """Yield what is wrong with an answer."""
    expected = verdict(declared, caller)
    what = f"{method} {path} by {caller.name}: {status}"
    if expected == "unknown" and status != 401:
        yield f"{what}, not 401"
    if expected == "forbidden" and status != 403:
        yield f"{what}, not 403"
    if expected == "in" and declared.needs is not Gate.OWN:
        shut_out = status == 401 or (status == 403 and not (declared.form and not caller.session))
        if shut_out:
            yield f"{what}, and it should be let in"
        if status not in statuses(path, "GET" if method == "HEAD" else method, declared):
            yield f"{what}, which is not declared"


async def test_everybody_gets_from_every_route_what_it_declares(asked: Asked) -> None:
    found: list[str] = []
    for path, method, declared in asked.routes:
        if method == "HEAD" and streams(declared):
            continue
        for caller in asked.callers:
            status = await asked.status(path, method, declared, caller)
            found += faults(path, method, declared, caller, status)
    assert found == []


async def test_another_site_changes_nothing_by_a_cookie(asked: Asked) -> None:
    caller = Caller("session admin", frozenset({Scope.ADMIN}), session=True)
    unsafe = [
        row for row in asked.routes if row[1] in UNSAFE and (row[2].needs is not Gate.PUBLIC or row[2].form)
    ]
    assert len(unsafe) >= 8
    for path, method, declared in unsafe:
        for headers in (CROSS, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://evil.example"}, {}):
            status = await asked.status(path, method, declared, caller, **headers)
            # What servers send bears a signature, and a cookie means nothing to it.
            signed = declared.needs is Gate.OWN and not declared.form
            assert status in ((401, 403) if signed else (403,)), f"{method} {path} with {headers}"


async def test_people_are_led_to_the_sign_in_and_programs_are_told(asked: Asked) -> None:
    nobody = Caller("anonymous", None)
    for path, method, declared in asked.routes:
        if method == "GET" and declared.needs not in (Gate.PUBLIC, Gate.OWN):
            status = await asked.status(path, method, declared, nobody, Accept="text/html")
            assert status == (303 if declared.page else 401), path


def test_what_is_public_is_what_stands_here(tmp_path: Path) -> None:
    """Whoever opens a route to everybody says so here too."""
    _, routes = routes_of(sqlite_settings(tmp_path))
    public = {
        (path, method)
        for path, method, declared in routes
        if declared.needs is Gate.PUBLIC and method != "HEAD"
    }
    assert public == {
        ("/.well-known/acme-challenge/{token}", "GET"),
        ("/api/login", "POST"),
        ("/assets/{name}", "GET"),
        ("/health", "GET"),
        ("/health/process", "GET"),
        ("/log/checkpoint", "GET"),
        ("/log/tile/{path:path}", "GET"),
        ("/openapi.json", "GET"),
        ("/sign-in", "GET"),
        ("/sign-in", "POST"),
        ("/version", "GET"),
    }
