"""Certificates from an authority, asked for and served through a real HAProxy, and looked at as served."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.support.acme_server import AcmeServer
from tests.support.haproxy import Haproxy, Web
from tests.support.tlog_hub import Led, lead

from rota.configuration.vault import new_key
from rota.coordination.bus.local import LocalBus
from rota.routing.haproxy import HaproxyProxy
from rota.secret import Secret
from rota.settings import Settings
from rota.settings.model import ConfigurationSettings
from rota.store.apps import Apps
from rota.store.certificates import Certificates, Kept, Order
from rota.store.database import Database, Transaction
from rota.store.domains import Domains, Source
from rota.store.tlog import Outbox
from rota.tasks.certificates import Keeper, due
from rota.tasks.routing import RoutingSync

NAME = "shop.example"


class Answers(dict[str, Callable[[BaseHTTPRequestHandler], None]]):
    """What the hub's web process answers at the authority's path, from the database."""

    def __init__(self, database: Database, loop: asyncio.AbstractEventLoop) -> None:
        self._find: Callable[[str], str | None] = lambda token: asyncio.run_coroutine_threadsafe(
            Certificates(database).answer(token), loop
        ).result(5)

    def get(self, path: str, default: Any = None) -> Any:
        found = self._find(path.rpartition("/")[2])
        return default if found is None else lambda handler: handler.answer(200, found.encode())


class Site:
    """A hub with the app shop, its proxy, and an authority."""

    def __init__(self, settings: Settings, database: Database, directory: Path, stack: ExitStack) -> None:
        web = stack.enter_context(Web.serving("w1-1"))
        web.paths = Answers(database, asyncio.get_running_loop())
        self.proxy = Haproxy.start(directory, {"w1-1": web.port}, haproxy_apps=2, haproxy_tcp_apps=1)
        stack.callback(self.proxy.stop)
        self.authority = stack.enter_context(AcmeServer.serving(self.proxy.plain_port))
        self.settings = replace(
            settings,
            configuration=ConfigurationSettings(key=Secret(new_key())),
            routing=replace(
                settings.routing,
                proxy="haproxy",
                acme_directory=self.authority.url,
                tls=f"127.0.0.1:{self.proxy.port}",
            ),
        )
        self.database, self.bus = database, LocalBus()
        self.certificates = Certificates(database)
        driver = HaproxyProxy(
            Path(self.proxy.variables["haproxy_apps_directory"]),
            Path(self.proxy.variables["haproxy_apps_socket"]),
        )
        self.driver = driver
        self.sync = RoutingSync(self.settings, database, self.bus, lambda: driver)
        self.keeper = Keeper(self.settings, database, self.bus)
        self.led: Led

    async def begin(self) -> None:
        async def work(tx: Transaction) -> None:
            await Apps.add(tx, "shop")
            await Domains.add(tx, NAME, "shop", Source.ACME, "ada")

        await self.database.write(work)
        self.led = Led(await lead(self.database, "routing.certificates"))
        await self.route()

    async def route(self) -> None:
        """Tell the proxy what the database says."""
        now = datetime.now(UTC)
        assert await self.driver.apply(await self.sync.wanted(now, now), self.led.term.fence) == {}

    async def look(self) -> Kept:
        """Have the task look once, and return the certificate."""
        await self.keeper.look(self.led.term)
        (found,) = await self.certificates.all()
        return found


@pytest.fixture
async def site(settings: Settings, database: Database, tmp_path: Path) -> AsyncIterator[Site]:
    with ExitStack() as stack:
        made = Site(settings, database, tmp_path, stack)
        await made.begin()
        yield made


async def test_one_is_ordered_served_renewed_and_looked_at_as_served(site: Site) -> None:
    first = await site.look()
    assert first.served_at is None  # the proxy was not told yet
    await site.route()
    assert (await site.look()).served_at is not None
    assert len(site.authority.orders) == 1
    past = timedelta(days=80)
    renewed = replace(first, begins_at=first.begins_at - past, ends_at=first.ends_at - past)
    await site.database.write(lambda tx: Certificates.put(tx, renewed))
    second = await site.look()
    assert second.fingerprint != first.fingerprint
    assert second.served_at is None  # what visitors get is the old one, and that is seen
    await site.route()
    assert (await site.look()).served_at is not None
    assert len(site.authority.accounts) == 1
    assert len(await Outbox(site.database).waiting(9)) == 2


async def test_what_the_authority_says_is_kept_and_not_asked_again_at_once(site: Site) -> None:
    site.authority.refuse = "this name is on a list"
    await site.keeper.look(site.led.term)
    await site.keeper.look(site.led.term)
    order = (await site.certificates.orders())[NAME]
    assert (order.tries, "this name is on a list" in order.reason) == (1, True)
    assert site.authority.orders == []


async def test_a_name_that_leads_elsewhere_is_said(site: Site) -> None:
    site.authority.ask_port = site.authority.server_address[1]
    await site.keeper.look(site.led.term)
    order = (await site.certificates.orders())[NAME]
    assert f"{NAME} answered 200" in order.reason


async def test_an_authority_that_is_away_is_said(site: Site) -> None:
    away = replace(site.settings, routing=replace(site.settings.routing, acme_directory="http://127.0.0.1:1"))
    await Keeper(away, site.database, site.bus).look(site.led.term)
    assert "cannot be reached" in (await site.certificates.orders())[NAME].reason


def test_it_is_due_in_the_last_third_of_its_time_and_waits_longer_after_each_failure() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    kept = Kept(
        name=NAME,
        chain="",
        key="",
        identity="",
        fingerprint="",
        begins_at=now - timedelta(days=59),
        ends_at=now + timedelta(days=31),
    )
    assert not due(kept, None, now)
    assert due(kept, None, now + timedelta(days=2))
    assert due(None, None, now)
    waits = [
        next(
            hours
            for hours in range(0, 100_000, 30)
            if due(None, Order(NAME, tries, now, ""), now + timedelta(seconds=hours))
        )
        for tries in (1, 2, 3, 20)
    ]
    assert waits == [60, 120, 240, 6 * 3600]
