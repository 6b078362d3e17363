"""Names, certificates and gates on both kinds of database: from wishes to what the proxy should do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from plugins.modules import rota_certificate
from tests.support.sql import run
from tests.support.tlog_files import entries_in

from rota.acts.access import make_tlog
from rota.acts.act import read_act
from rota.configuration.vault import Vault, new_key
from rota.coordination.bus.local import LocalBus
from rota.errors import ConflictError, InputError, NotFoundError
from rota.routing.domains import Naming, WantedDomain
from rota.routing.gate import new_key as new_gate_key
from rota.routing.proxy import NoProxy, Wanted
from rota.secret import Secret
from rota.settings import Settings
from rota.settings.model import ConfigurationSettings
from rota.store.apps import Apps
from rota.store.certificates import Certificates
from rota.store.configurations import Configurations
from rota.store.database import Database, Transaction
from rota.store.domains import Domains, Source
from rota.store.gates import Gates, Visit
from rota.store.routes import Routes
from rota.tasks.routing import RoutingSync


class Site:
    """A hub with the apps shop and blog."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings = replace(
            settings,
            configuration=ConfigurationSettings(key=Secret(new_key())),
            routing=replace(settings.routing, domain="apps.example", gate_key=Secret(new_gate_key())),
        )
        self.database = database
        self.bus = LocalBus()
        self.naming = Naming(self.settings, database, make_tlog(self.settings, database, self.bus), self.bus)
        self.sync = RoutingSync(self.settings, database, self.bus, NoProxy)

    async def begin(self) -> "Site":
        async def work(tx: Transaction) -> None:
            for name in ("blog", "shop"):
                await Apps.add(tx, name)
            await Configurations.tell_key(tx, Vault(self.settings).public)

        await self.database.write(work)
        return self

    async def add(self, name: str, app: str = "shop", **rest: object) -> str:
        return (await self.naming.add("ada", WantedDomain(app=app, name=name, **rest))).name  # type: ignore[arg-type]

    async def wanted(self) -> Wanted:
        now = datetime.now(UTC)
        return await self.sync.wanted(now, now)

    async def names(self) -> dict[str, tuple[str, ...]]:
        return {routes.app: routes.names for routes in (await self.wanted()).apps}

    def acts(self) -> list[str]:
        return [read_act(entry).kind for entry in entries_in(self.settings.tlog_directory)]


@pytest.fixture
async def site(settings: Settings, database: Database) -> Site:
    return await Site(settings, database).begin()


def pem(name: str) -> tuple[str, str]:
    """Return a certificate for a name, and its key."""
    text = rota_certificate.make(name)
    at = text.index("-----BEGIN CERTIFICATE")
    before, after = text[:at], text[at:]
    certificate, mark, rest = after.partition("-----END CERTIFICATE-----\n")
    return certificate + mark, before + rest


class TestNames:
    async def test_an_app_has_its_own_below_the_domain_and_those_it_is_given(self, site: Site) -> None:
        assert await site.names() == {"blog": ("blog.apps.example",), "shop": ("shop.apps.example",)}
        assert await site.add("WWW.Shop.example.") == "www.shop.example"
        assert await site.add("bücher.example") == "xn--bcher-kva.example"
        assert (await site.names())["shop"] == (
            "shop.apps.example",
            "www.shop.example",
            "xn--bcher-kva.example",
        )
        await site.naming.remove("ada", "Bücher.example")
        assert [each.name for each in await Domains(site.database).all()] == ["www.shop.example"]
        assert site.acts() == ["domain.add", "domain.add", "domain.remove"]
        route = await Routes(site.database).of("shop")
        assert route is not None
        assert (route.wanted, route.confirmed) == (3, 0)

    async def test_a_name_is_one_apps_alone(self, site: Site) -> None:
        await site.add("shop.example")
        await site.add("shop.example")
        with pytest.raises(ConflictError, match="another app's name"):
            await site.add("SHOP.example", app="blog")
        assert site.acts() == ["domain.add", "domain.add"]

    async def test_what_cannot_be_is_refused_and_leaves_no_act(self, site: Site) -> None:
        certificate, key = pem("shop.example")
        refused: list[tuple[type[Exception], dict[str, object]]] = [
            (InputError, {"name": "http://shop.example"}),
            (NotFoundError, {"name": "shop.example", "app": "nothing"}),
            (ConflictError, {"name": "blog.apps.example"}),
            (ConflictError, {"name": "apps.example"}),
            (ConflictError, {"name": "shop.example", "acme": True}),
            (InputError, {"name": "shop.example", "certificate": certificate}),
            (InputError, {"name": "shop.example", "certificate": certificate, "key": pem("shop.example")[1]}),
            (InputError, {"name": "other.example", "certificate": certificate, "key": key}),
            (InputError, {"name": "shop.example", "certificate": "nothing", "key": key}),
            (InputError, {"name": "shop.example", "certificate": certificate, "key": "nothing"}),
        ]
        for error, given in refused:
            with pytest.raises(error):
                await site.add(**given)  # type: ignore[arg-type]
        with pytest.raises(NotFoundError):
            await site.naming.remove("ada", "shop.example")
        assert site.acts() == []


class TestCertificates:
    async def test_one_from_a_file_reaches_the_proxy_and_its_key_lies_sealed(self, site: Site) -> None:
        certificate, key = pem("shop.example")
        await site.add("shop.example", certificate=certificate, key=key)
        (found,) = (await site.wanted()).certificates
        assert found.name == "shop.example"
        assert certificate in found.pem
        assert "PRIVATE KEY" in found.pem
        ((kept,),) = run(site.settings, "SELECT key FROM certificates")
        middle = key.splitlines()[1]
        assert middle not in kept
        assert middle.encode() not in b"".join(entries_in(site.settings.tlog_directory))
        (row,) = await Certificates(site.database).all()
        assert row.served_at is None
        assert row.ends_at > datetime.now(UTC) + timedelta(days=30)

    async def test_another_source_takes_its_place(self, site: Site) -> None:
        certificate, key = pem("shop.example")
        await site.add("shop.example", certificate=certificate, key=key)
        await site.add("shop.example")
        assert (await site.wanted()).certificates == []
        (domain,) = await Domains(site.database).all()
        assert domain.source is Source.NONE


class TestGates:
    async def test_each_change_has_a_new_version_and_is_an_act(self, site: Site) -> None:
        async def version() -> int:
            return {routes.app: routes.gate for routes in (await site.wanted()).apps}["shop"]

        assert await version() == 0
        assert (await site.wanted()).keys == []
        await site.naming.gate("ada", "shop", (), shut=True)
        assert await version() == 1
        assert len((await site.wanted()).keys) == 1
        await site.naming.gate("ada", "shop", ("bob", "ada", "bob"), shut=True)
        assert await version() == 2
        found = await Gates(site.database).find("shop")
        assert found is not None
        assert found.allowed == ("ada", "bob")
        await site.naming.gate("ada", "shop", (), shut=False)
        assert await version() == 0
        assert site.acts() == 3 * ["gate.change"]
        with pytest.raises(NotFoundError):
            await site.naming.gate("ada", "nothing", (), shut=True)
        with pytest.raises(InputError):
            await site.naming.gate("ada", "shop", ("no name!",), shut=True)

    async def test_a_token_is_revoked_once_its_session_is_over(self, site: Site) -> None:
        await site.naming.gate("ada", "shop", (), shut=True)
        gates = Gates(site.database)
        await gates.let_in(Visit("t1", "shop", 1, 1, 3600))
        await gates.let_in(Visit("t2", "shop", 1, 1, -1))
        assert (await site.wanted()).revoked == ["t1"]
