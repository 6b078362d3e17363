"""The gate's two ends together: the hub's pages sign, and the proxy's rules are what the token is for."""

import json
import time
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from falcon import testing
from tests.security.test_matrix import as_served
from tests.support import access
from tests.support.routes import routes_of
from tests.support.settings import sqlite_settings

from rota.access.scopes import Scope
from rota.hub import Hub
from rota.routing.gate import LASTS
from rota.store.apps import Apps
from rota.store.gates import Gates

SHOP = "shop.apps.example"


class Site:
    """A hub with the app shop behind its gate."""

    def __init__(self, hub: Hub, conductor: testing.ASGIConductor) -> None:
        self.hub, self.conductor = hub, conductor

    async def gate(self, **wanted: Any) -> dict[str, Any]:
        """Change the gate as an admin does."""
        secret = await access.new_bearer(self.hub.database, Scope.APPS_WRITE)
        answer = await self.conductor.simulate_put(
            "/api/apps/shop/gate", json=wanted, headers={"Authorization": f"Bearer {secret}"}
        )
        assert answer.status_code == 200, answer.text
        return dict(answer.json)

    async def enter(self, cookie: str = "", host: str = SHOP, to: str = "/a?b=c") -> testing.Result:
        """Come as the proxy sends people."""
        headers = {"Accept": "text/html"}
        if cookie:
            headers["Cookie"] = f"{access.COOKIE}={cookie}"
        params = {"host": host, "to": to}
        return await self.conductor.simulate_get("/gate", params=params, headers=headers)

    async def person(self, name: str) -> str:
        """Return the cookie of an account that has no rights at all."""
        account = await access.new_account(self.hub.database, name=name)
        return await access.new_session(self.hub.database, account=account)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    settings = sqlite_settings(tmp_path, ROTA_SERVER_ROLES="web", ROTA_ROUTING_DOMAIN="apps.example")
    hub, routes = routes_of(settings)
    async with testing.ASGIConductor(as_served(routes.app)) as conductor:
        await hub.settled.wait()
        await hub.database.write(lambda tx: Apps.add(tx, "shop"))
        yield Site(hub, conductor)


def claims(location: str) -> dict[str, Any]:
    (token,) = parse_qs(urlsplit(location).query)["token"]
    part = token.split(".")[1]
    return dict(json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4))))


async def test_who_is_signed_in_is_led_back_with_a_token_for_this_name(site: Site) -> None:
    await site.gate(shut=True)
    answer = await site.enter(await site.person("ada"), f"{SHOP}:8443")
    assert answer.status_code == 303
    location = urlsplit(answer.headers["location"])
    assert (location.scheme, location.netloc, location.path) == ("https", f"{SHOP}:8443", "/.rota/gate")
    assert parse_qs(location.query)["to"] == ["/a?b=c"]
    said = claims(answer.headers["location"])
    assert (said["sub"], said["aud"], said["gate"]) == ("ada", SHOP, "1")
    assert LASTS - 60 < said["exp"] - time.time() <= LASTS


async def test_nobody_is_let_in_who_is_not_signed_in_or_not_allowed(site: Site) -> None:
    await site.gate(shut=True, allow=["ada"])
    stranger = await site.enter()
    assert stranger.headers["location"].startswith("/sign-in?to=%2Fgate")
    assert (await site.enter(await site.person("bob"))).status_code == 403
    assert (await site.enter(await site.person("ada"))).status_code == 303
    secret = await access.new_bearer(site.hub.database, Scope.ADMIN)
    token = await site.conductor.simulate_get(
        "/gate", params={"host": SHOP}, headers={"Authorization": f"Bearer {secret}"}
    )
    assert token.status_code == 403  # a program's token is no session that could end


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example", ""])
async def test_nobody_is_led_elsewhere(site: Site, to: str) -> None:
    await site.gate(shut=True)
    cookie = await site.person("ada")
    answer = await site.enter(cookie, to=to)
    if answer.status_code != 400:
        assert parse_qs(urlsplit(answer.headers["location"]).query)["to"] == ["/"]
    assert (await site.enter(cookie, host="evil.example")).status_code == 404
    assert (await site.enter(cookie, host="evil.example/")).status_code == 400


async def test_an_open_app_needs_no_token_and_a_sign_out_revokes_one(site: Site) -> None:
    cookie = await site.person("ada")
    assert (await site.enter(cookie)).headers["location"] == f"https://{SHOP}/a?b=c"
    await site.gate(shut=True)
    entered = await site.enter(cookie)
    gates = Gates(site.hub.database)
    assert await gates.revoked() == []
    out = await site.conductor.simulate_post(
        "/sign-out", headers={"Cookie": f"{access.COOKIE}={cookie}", "Sec-Fetch-Site": "same-origin"}
    )
    assert out.status_code == 303
    assert await gates.revoked() == [claims(entered.headers["location"])["jti"]]
