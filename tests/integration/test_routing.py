"""A real HAProxy from the Ansible role's own configuration, and the driver that tells it where apps are."""

import asyncio
import itertools
import json
import random
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from plugins.modules import rota_certificate
from tests.support.clients import asking
from tests.support.haproxy import HUB, Haproxy, Secure, Web
from tests.support.raw import Answer
from tests.support.wait import wait_for

from rota.coordination.epoch import Fence
from rota.errors import FencedError
from rota.routing.certificates import fingerprint_of, served_by
from rota.routing.gate import Pass, sign
from rota.routing.haproxy import APPS, HOSTS, STATES, HaproxyProxy
from rota.routing.proxy import Certificate, Wanted
from rota.routing.runtime import ProxyError, Runtime, read_map
from rota.routing.table import AppRoutes, Target

COOKIE = "__Host-rota-gate"
FENCE = Fence("routing.sync", 1, 1)
SLOTS, STANDBYS, APPS_PREPARED = 4, 2, 3
LIMITS = {
    "haproxy_apps": APPS_PREPARED,
    "haproxy_tcp_apps": 1,
    "haproxy_app_slots": SLOTS,
    "haproxy_app_standbys": STANDBYS,
    "haproxy_app_timeout": 2,
    "haproxy_idle_timeout": 5,
    "haproxy_body_max": 1000,
    "haproxy_stream_timeout": 60,
}


class Site:
    """One proxy, and instances that anybody may start."""

    def __init__(self, directory: Path, stack: ExitStack, **limits: int) -> None:
        self._stack = stack
        self.hub = self.instance("w1-1")
        self.proxy = Haproxy.start(directory, {"w1-1": self.hub.port}, **{**LIMITS, **limits})
        stack.callback(self.proxy.stop)
        self.directory = Path(self.proxy.variables["haproxy_apps_directory"])
        self.driver = HaproxyProxy(self.directory, Path(self.proxy.variables["haproxy_apps_socket"]))

    def instance(self, name: str) -> Web:
        """Start an instance that answers its name."""
        return self._stack.enter_context(Web.serving(name))

    def apply(self, *apps: AppRoutes, fence: Fence = FENCE, **rest: object) -> dict[str, str]:
        """Tell the proxy."""
        return asyncio.run(self.driver.apply(Wanted(apps=apps, **rest), fence))  # type: ignore[arg-type]

    def ask(self, host: str, path: str = "/", *headers: str, method: str = "GET") -> Answer:
        """Ask by a name, over TLS."""
        with self.connect() as connection:
            lines = (f"{method} {path} HTTP/1.1", f"Host: {host}", *headers)
            connection.send("".join(f"{line}\r\n" for line in (*lines, "")).encode())
            return connection.answer(method)

    def reload(self) -> None:
        """Have the proxy start anew as `systemctl reload` does, and wait until it has."""
        before = self.proxy.log.read_text().count("Loading success")
        self.proxy.reload()
        wait_for(lambda: self.proxy.log.read_text().count("Loading success") > before)

    def connect(self, host: str = HUB) -> Secure:
        """Return a connection that asks by this name."""
        connection = self.proxy.connect()
        connection.host = host
        return connection


def app(name: str, *webs: Web, standby: tuple[Web, ...] = (), health: str = "/health/process") -> AppRoutes:
    targets = [Target(copy=web.name, server="s1", address="127.0.0.1", port=web.port) for web in webs]
    targets += [
        Target(copy=web.name, server="s1", address="127.0.0.1", port=web.port, standby=True)
        for web in standby
    ]
    return AppRoutes(app=name, targets=tuple(targets), health_path=health, names=(f"{name}.example",))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path_factory.mktemp("routing"), stack)


@pytest.fixture
def site(shared: Site) -> Site:
    """Give a proxy that routes no app."""
    shared.apply()
    shared.hub.asked.clear()
    return shared


class TestNames:
    def test_a_name_leads_to_its_app_however_it_is_written(self, site: Site) -> None:
        assert site.apply(app("shop", site.instance("shop-1"))) == {}
        for host in (
            "shop.example",
            "SHOP.Example",
            "shop.example.",
            "shop.example:443",
            "Shop.example.:8443",
        ):
            assert site.ask(host).text == "shop-1", host

    @pytest.mark.parametrize(
        "host", ["other.example", "shop.example.evil", "xshop.example", "127.0.0.1", "[::1]", "", "shop"]
    )
    def test_an_unknown_name_is_not_found(self, site: Site, host: str) -> None:
        shop = site.instance("shop-1")
        site.apply(app("shop", shop))
        answer = site.ask(host)
        assert (answer.status, "rota domain add" in answer.text) == (404, True), host
        assert shop.asked == []

    def test_an_app_that_goes_takes_its_name_along(self, site: Site) -> None:
        site.apply(app("shop", site.instance("shop-1")))
        assert site.apply() == {}
        assert site.ask("shop.example").status == 404
        assert read_map((site.directory / HOSTS).read_text()) == {}

    def test_no_app_takes_the_hubs_name(self, site: Site) -> None:
        site.apply(replace(app("shop", site.instance("shop-1")), names=(HUB,)))
        assert site.ask(HUB).text == "w1-1"


class TestHub:
    @pytest.mark.parametrize(
        "path", ["/agents/enrol", "/agents/messages", "/artifacts/00", "/runs/1", "/logs"]
    )
    def test_what_servers_ask_is_not_on_the_public_name(self, site: Site, path: str) -> None:
        assert site.ask(HUB, path).status == 404
        assert site.hub.asked == []
        shop = site.instance("shop-1")
        site.apply(app("shop", shop))
        assert site.ask("shop.example", path).text == "shop-1"

    def test_a_source_is_streamed_whatever_its_size(self, site: Site) -> None:
        path, size = "/api/apps/shop/sources/00", 2_000_000
        with site.connect() as connection:
            connection.send(f"PUT {path} HTTP/1.1\r\nHost: {HUB}\r\nContent-Length: {size}\r\n\r\n".encode())
            wait_for(lambda: ("PUT", path) in site.hub.asked)
            connection.send(b"x" * size)
            assert connection.answer("PUT").status == 200


class TestTargets:
    def test_requests_are_spread_and_follow_what_is_wanted(self, site: Site) -> None:
        webs = [site.instance(f"shop-{number}") for number in range(4)]
        site.apply(app("shop", *webs[:2]))
        assert {site.ask("shop.example").text for _ in range(8)} == {"shop-0", "shop-1"}
        site.apply(app("shop", *webs[2:]))
        assert {site.ask("shop.example").text for _ in range(8)} == {"shop-2", "shop-3"}

    def test_who_stands_by_serves_where_no_other_is_up(self, site: Site) -> None:
        new, old = site.instance("new"), site.instance("old")
        site.apply(app("shop", new, standby=(old,)))
        assert {site.ask("shop.example").text for _ in range(4)} == {"new"}
        new.healthy = False
        wait_for(lambda: site.ask("shop.example").text == "old", within=10)

    def test_the_health_path_is_the_apps_own(self, site: Site) -> None:
        shop = site.instance("shop-1")
        asked = threading.Event()

        def up(handler: BaseHTTPRequestHandler) -> None:
            asked.set()
            handler.send_response(204)
            handler.end_headers()

        shop.paths["/up"] = up
        site.apply(app("shop", shop, health="/up?full=1"))
        assert asked.wait(5)

    def test_an_app_that_is_only_connected_to_has_a_backend_of_its_own_kind(self, site: Site) -> None:
        shop = site.instance("shop-1")
        site.apply(app("shop", shop))
        assert site.apply(app("shop", shop, health="")) == {}
        assert read_map((site.directory / APPS).read_text()) == {"tcp_1": "shop"}
        assert site.ask("shop.example").text == "shop-1"

    def test_nobody_up_is_said_with_the_apps_name(self, site: Site) -> None:
        site.apply(app("shop"))
        answer = site.ask("shop.example")
        assert (answer.status, "the app shop is up" in json.loads(answer.body)["description"]) == (503, True)

    def test_the_time_limit_is_named(self, site: Site) -> None:
        shop, gate = site.instance("shop-1"), threading.Event()
        shop.paths["/slow"] = lambda _: (gate.wait(20), None)[1]
        site.apply(app("shop", shop))
        answer = site.ask("shop.example", "/slow")
        gate.set()
        assert answer.status == 504
        assert "within 2 s (haproxy_app_timeout)" in answer.text

    def test_forged_headers_do_not_reach_an_app(self, site: Site) -> None:
        shop = site.instance("shop-1")
        site.apply(app("shop", shop))
        forged = (
            "X-Hub-User: admin",
            "X-Forwarded-For: 6.6.6.6",
            "X-Forwarded-Host: evil",
            "Forwarded: for=6",
        )
        assert site.ask("shop.example.", "/", *forged).status == 200
        sent = {name.lower(): value for name, value in shop.headers[-1]}
        assert "x-hub-user" not in sent
        assert "forwarded" not in sent
        assert (sent["x-forwarded-for"], sent["x-forwarded-host"], sent["x-forwarded-proto"]) == (
            "127.0.0.1",
            "shop.example",
            "https",
        )

    def test_a_large_upload_is_streamed(self, site: Site) -> None:
        shop = site.instance("shop-1")
        site.apply(app("shop", shop))
        size = 20_000_000
        with site.connect() as connection:
            start = f"PUT /file HTTP/1.1\r\nHost: shop.example\r\nContent-Length: {size}\r\n\r\n"
            connection.send(start.encode())
            wait_for(lambda: ("PUT", "/file") in shop.asked)  # before the body is there
            for _ in range(size // 1_000_000):
                connection.send(b"x" * 1_000_000)
            assert connection.answer("PUT").text == "shop-1"


class TestTrouble:
    def test_an_app_that_does_not_fit_is_named_and_stays_as_it_was(self, site: Site) -> None:
        shop, blog = site.instance("shop-1"), site.instance("blog-1")
        site.apply(app("shop", shop), app("blog", blog))
        many = [site.instance(f"shop-{number}") for number in range(SLOTS + 1)]
        other = site.instance("blog-2")
        refused = site.apply(app("shop", *many), app("blog", other))
        assert list(refused) == ["shop"]
        assert "haproxy_app_slots" in refused["shop"]
        assert (site.ask("shop.example").text, site.ask("blog.example").text) == ("shop-1", "blog-2")

    def test_a_bad_address_concerns_its_app_alone(self, site: Site) -> None:
        bad = replace(
            app("bad"), targets=(Target(copy="bad.web.1@1", server="s", address="nowhere; shutdown", port=1),)
        )
        refused = site.apply(bad, app("shop", site.instance("shop-1")))
        assert list(refused) == ["bad"]
        assert site.ask("shop.example").text == "shop-1"

    def test_more_apps_than_backends(self, site: Site) -> None:
        webs = {name: site.instance(name) for name in ("a", "b", "c", "d")}
        refused = site.apply(*(app(name, web) for name, web in webs.items()))
        assert list(refused) == ["d"]
        assert "haproxy_apps" in refused["d"]
        left = [app(name, web) for name, web in webs.items() if name != "b"]
        site.apply(*left)  # what b had is free from the next look on
        assert site.apply(*left) == {}
        assert site.ask("d.example").text == "d"

    def test_who_leads_no_longer_changes_nothing(self, site: Site) -> None:
        later = FENCE._replace(epoch=2)
        site.apply(app("shop", site.instance("shop-1")), fence=later)
        with pytest.raises(FencedError):
            site.apply(fence=FENCE)
        assert site.ask("shop.example").text == "shop-1"
        (site.directory / "epoch").unlink()

    def test_what_somebody_else_changed_is_put_right(self, site: Site) -> None:
        wanted = app("shop", site.instance("shop-1"))
        site.apply(wanted)
        backend = next(iter(read_map((site.directory / APPS).read_text())))
        runtime = Runtime(Path(site.proxy.variables["haproxy_apps_socket"]))
        asyncio.run(runtime.ask(f"set server {backend}/s1 state maint"))
        asyncio.run(runtime.ask(f"clear map {site.directory / HOSTS}"))
        assert site.ask("shop.example").status == 404
        assert site.apply(wanted) == {}
        assert site.ask("shop.example").text == "shop-1"

    def test_a_proxy_that_is_away_is_named(self, tmp_path: Path) -> None:
        driver = HaproxyProxy(tmp_path, tmp_path / "nothing.sock")
        with pytest.raises(ProxyError, match="systemctl status haproxy"):
            asyncio.run(driver.apply(Wanted(apps=[]), FENCE))


class TestRestarts:
    def test_a_proxy_that_starts_anew_begins_where_it_stood(self, tmp_path: Path) -> None:
        """By a reload, an end in order and a kill: without anybody telling it anything."""
        with ExitStack() as stack:
            site = Site(tmp_path, stack)
            new, old = site.instance("new"), site.instance("old")
            wanted = app("shop", new, standby=(old,))
            site.apply(app("shop", old))
            site.apply(wanted)
            site.reload()
            assert {site.ask("shop.example").text for _ in range(4)} == {"new"}
            for end in (site.proxy.stop, site.proxy.kill):
                end()
                site.proxy.begin()
                assert {site.ask("shop.example").text for _ in range(4)} == {"new"}
            assert site.apply(wanted) == {}
            assert (site.directory / STATES).read_text().count(" app_1 ") == 2


def test_targets_change_under_load_and_nobody_notices(site: Site) -> None:
    """New ones come, old ones stand by and go; connections kept and fresh; a neighbour's stream held."""
    generations = [[site.instance(f"shop-{n}-{m}") for m in range(2)] for n in range(3)]
    blog, gate = site.instance("blog-1"), threading.Event()

    def live(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        handler.wfile.write(b"data: 0\r\n\r\n")
        gate.wait(60)
        handler.wfile.write(b"data: 1\r\n\r\n")
        handler.close_connection = True

    blog.paths["/live"] = live
    site.apply(app("shop", *generations[0]), app("blog", blog))
    stream = site.connect()
    stream.send(b"GET /live HTTP/1.1\r\nHost: blog.example\r\nAccept: text/event-stream\r\n\r\n")
    stream.raw(b"data: 0", 1)
    order = itertools.cycle([1, 2, 0])
    before = 0
    with asking(lambda: site.connect("shop.example"), clients=6) as tally:
        for _ in range(20):
            now = next(order)
            site.apply(app("shop", *generations[now], standby=tuple(generations[before])), app("blog", blog))
            seen = tally.total
            wait_for(lambda seen=seen: tally.total >= seen + 20)  # type: ignore[misc]
            site.apply(app("shop", *generations[now]), app("blog", blog))
            before = now
    assert (tally.failed, tally.resent) == ({}, 0)
    gate.set()
    stream.raw(b"data: 1", 1)
    stream.close()


def test_any_order_of_wishes_ends_in_the_last(site: Site) -> None:
    chosen = random.Random(5)  # noqa: S311 - the same wishes each time
    webs = {name: [site.instance(f"{name}-{n}") for n in range(3)] for name in ("a", "b", "c")}
    for _ in range(15):
        wanted = {name: chosen.sample(own, chosen.randint(0, 3)) for name, own in webs.items()}
        assert site.apply(*(app(name, *own) for name, own in wanted.items())) == {}
        for name, own in wanted.items():
            answers = {site.ask(f"{name}.example").text for _ in range(4)} if own else set()
            assert answers <= {web.name for web in own}


class TestCertificates:
    """They are served at once, replaced and taken away without a reload, and there after a restart."""

    def served(self, site: Site, name: str) -> str:
        return served_by("127.0.0.1", site.proxy.port, name, 5)

    def certificate(self, name: str) -> tuple[Certificate, str]:
        pem = rota_certificate.make(name)
        der = ssl.PEM_cert_to_DER_cert(
            pem[pem.index("-----BEGIN CERTIFICATE") :].partition("-----END CERT")[0]
            + "-----END CERTIFICATE-----\n"
        )
        return Certificate(name, pem), fingerprint_of(der)

    def test_a_name_has_its_own_and_a_renewal_is_served_at_once(self, site: Site) -> None:
        own = [app("shop", site.instance("shop-1"))]
        first, seen = self.certificate("shop.example")
        site.apply(*own, certificates=[first])
        assert self.served(site, "shop.example") == seen
        hubs = self.served(site, HUB)
        assert hubs != seen
        second, renewed = self.certificate("shop.example")
        site.apply(*own, certificates=[second])
        assert self.served(site, "shop.example") == renewed
        site.reload()
        assert self.served(site, "shop.example") == renewed
        site.apply(*own, certificates=[second])
        site.apply(*own)
        assert self.served(site, "shop.example") == hubs
        assert list((site.directory / "certificates").iterdir()) == []

    def test_one_that_the_proxy_does_not_take_leaves_the_others(self, site: Site) -> None:
        good, seen = self.certificate("shop.example")
        pem = self.certificate("bad.example")[0].pem
        bad = Certificate(
            "bad.example",
            pem[: pem.index("-----BEGIN CERTIFICATE")]
            + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        )
        site.apply(app("shop", site.instance("shop-1")), certificates=[bad, good])
        assert self.served(site, "shop.example") == seen


class TestGate:
    KEY, BEFORE = "k" * 43, "b" * 43

    def gated(self, site: Site, **rest: Any) -> Web:
        shop = site.instance("shop-1")
        routes = replace(app("shop", shop), gate=7)
        site.apply(routes, app("blog", site.instance("blog-1")), keys=(self.KEY, self.BEFORE), **rest)
        return shop

    def token(self, key: str = KEY, **rest: object) -> str:
        given = Pass("id1", "ada", "shop.example", 7, int(time.time()) + 60)
        return sign(replace(given, **rest), key)  # type: ignore[arg-type]

    def test_who_is_not_signed_in_is_led_to_the_hub(self, site: Site) -> None:
        shop = self.gated(site)
        answer = site.ask("Shop.example", "/a?b=c")
        port = site.proxy.port
        assert (answer.status, answer.headers["location"]) == (
            303,
            f"https://{HUB}/gate?host=shop.example:{port}&to=%2Fa%3Fb%3Dc",
        )
        assert site.ask("shop.example", "/", "Content-Length: 0", method="POST").status == 401
        assert site.ask("blog.example").text == "blog-1"
        assert shop.asked == []

    def test_who_is_has_the_headers_that_say_so_and_the_app_not_the_token(self, site: Site) -> None:
        shop = self.gated(site)
        for key in (self.KEY, self.BEFORE):
            cookie = f"Cookie: a=1; {COOKIE}={self.token(key)}; b=2"
            assert site.ask("shop.example", "/", cookie, "X-Hub-User: root").text == "shop-1"
            sent = [(name.lower(), value) for name, value in shop.headers[-1]]
            assert [value for name, value in sent if name == "x-hub-user"] == ["ada"]
            assert not any(COOKIE in value for _, value in sent)

    def test_no_other_token_opens_it(self, site: Site) -> None:
        shop = self.gated(site, revoked=["gone"])
        bad = {
            "another key": self.token("x" * 43),
            "over": self.token(ends_at=int(time.time()) - 1),
            "another name": self.token(host="blog.example"),
            "an older gate": self.token(version=6),
            "revoked": self.token(id="gone"),
            "nobody": self.token(account=""),
            "no id": self.token(id=""),
            "nothing": "",
            "no signature": ".".join(self.token().split(".")[:2]) + ".",
            "no algorithm": "eyJhbGciOiJub25lIn0." + self.token().split(".")[1] + ".",
            "longer": self.token() + "A",
        }
        for why, token in bad.items():
            cookie = f"Cookie: {COOKIE}={token}"
            assert site.ask("shop.example", "/", cookie).status == 303, why
            assert site.ask("shop.example", "/", cookie, "Content-Length: 0", method="POST").status == 401, (
                why
            )
        assert shop.asked == []

    def test_the_hub_leads_back_by_a_cookie_for_this_name_alone(self, site: Site) -> None:
        self.gated(site)
        token = self.token()
        answer = site.ask("shop.example", f"/.rota/gate?token={token}&to=%2Fa%3Fb%3Dc")
        assert (answer.status, answer.headers["location"]) == (303, "/a?b=c")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"{COOKIE}={token}; ")
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= set(cookie.split("; "))
        for to in (
            "//evil.example",
            "%2F%2Fevil.example",
            "https:%2F%2Fevil",
            "%2F%5Cevil",
            "%2F%0d%0aX:1",
            "",
        ):
            assert site.ask("shop.example", f"/.rota/gate?token={token}&to={to}").status == 400, to
        assert site.ask("shop.example", "/.rota/gate?token=x&to=%2F").status == 403

    def test_it_holds_while_the_proxy_starts_anew_and_nobody_else_is_there(self, tmp_path: Path) -> None:
        with ExitStack() as stack:
            site = Site(tmp_path, stack)
            self.gated(site, revoked=["gone"])
            site.proxy.kill()
            site.proxy.begin()
            assert site.ask("shop.example").status == 303
            assert site.ask("shop.example", "/", f"Cookie: {COOKIE}={self.token()}").text == "shop-1"
            assert site.ask("shop.example", "/", f"Cookie: {COOKIE}={self.token(id='gone')}").status == 303
