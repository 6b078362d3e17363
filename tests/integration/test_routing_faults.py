"""A real HAProxy under load from every kind of client: switches, reloads and kills (F19)."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.integration.test_routing import Site, app
from tests.support.clients import asking
from tests.support.haproxy import Secure, Web
from tests.support.wait import wait_for

RELOADS, KILLS = 5, 3
BACK_WITHIN = 1.5  # seconds from a kill to the next answer, systemd's own wait apart


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, stack, haproxy_app_timeout=20, haproxy_idle_timeout=20)


def slow(handler: BaseHTTPRequestHandler) -> None:
    """Answer after 2 s, or nearly so."""
    threading.Event().wait(1.8)
    handler.answer(200, b"slow")  # type: ignore[attr-defined]


def echo(handler: BaseHTTPRequestHandler) -> None:
    """Speak as a WebSocket does: switch, then send back whatever comes."""
    handler.wfile.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    )
    handler.connection.settimeout(30)
    while data := handler.connection.recv(1024):
        handler.wfile.write(data)
    handler.close_connection = True


def upgraded(site: Site, host: str) -> Secure:
    connection = site.connect(host)
    connection.send(
        f"GET /socket HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    connection.until(b"\r\n\r\n")
    return connection


def upload(site: Site, outcomes: list[str], stop: threading.Event) -> None:
    """Send 2 MB again and again, in parts."""
    while not stop.is_set():
        with site.connect("shop.example") as connection:
            connection.send(b"PUT /file HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 2000000\r\n\r\n")
            for _ in range(20):
                connection.send(b"x" * 100_000)
                stop.wait(0.01)
            outcomes.append(str(connection.answer("PUT").status))


def test_every_kind_of_request_outlives_twenty_switches(site: Site) -> None:
    """Short and 2 s requests, uploads, and a neighbour's WebSocket."""
    generations: list[list[Web]] = [[site.instance(f"shop-{n}-{m}") for m in range(2)] for n in range(2)]
    blog = site.instance("blog-1")
    blog.paths["/socket"] = echo
    for web in (web for own in generations for web in own):
        web.paths["/slow"] = slow
    site.apply(app("shop", *generations[0]), app("blog", blog))
    socket = upgraded(site, "blog.example")
    uploads: list[str] = []
    stop = threading.Event()
    sender = threading.Thread(target=upload, args=(site, uploads, stop))
    with (
        asking(lambda: site.connect("shop.example"), clients=4, pause=0.005) as short,
        asking(lambda: site.connect("shop.example"), clients=4, path="/slow") as long,
    ):
        sender.start()
        for number in range(1, 21):
            new, old = generations[number % 2], generations[1 - number % 2]
            site.apply(app("shop", *new, standby=tuple(old)), app("blog", blog))
            site.apply(app("shop", *new), app("blog", blog))
            seen = short.total
            wait_for(lambda seen=seen: short.total >= seen + 10)  # type: ignore[misc]
            socket.send(f"{number};".encode())
            assert socket.until(f"{number};".encode())
        stop.set()
        sender.join()
    socket.close()
    assert (short.failed, short.resent) == ({}, 0)
    assert (long.failed, long.resent) == ({}, 0)
    assert set(uploads) == {"200"}


def test_reloads_lose_nothing_and_begin_where_the_proxy_stood(site: Site) -> None:
    """One a second, as promised; whoever sends again on a closed connection is answered."""
    webs = [site.instance(f"shop-{n}") for n in range(2)]
    blog = site.instance("blog-1")
    blog.paths["/socket"] = echo
    site.apply(app("shop", *webs), app("blog", blog))
    socket = upgraded(site, "blog.example")
    with asking(lambda: site.connect("shop.example"), clients=4, pause=0.005) as tally:
        for _ in range(RELOADS):
            began = time.monotonic()
            site.reload()
            wait_for(lambda began=began: time.monotonic() > began + 1)  # type: ignore[misc]
        socket.send(b"still;")
        assert socket.until(b"still;")
    socket.close()
    assert tally.failed == {}
    print(f"{tally.total} requests over {RELOADS} reloads, {tally.resent} sent again")


def test_after_a_kill_the_next_one_serves_at_once_what_was_last(site: Site) -> None:
    shop = site.instance("shop-1")
    site.apply(app("shop", shop))
    for _ in range(KILLS):
        site.proxy.kill()
        began = time.monotonic()
        site.proxy.begin()
        assert site.ask("shop.example").text == "shop-1"
        took = time.monotonic() - began
        assert took <= BACK_WITHIN
        print(f"back after {took:.2f} s")


def test_an_instance_that_dies_leaves_without_the_hub(site: Site) -> None:
    """No order is given: HAProxy's own checks and retries keep every request that may be sent again."""
    lives, dies = site.instance("lives"), site.instance("dies")
    site.apply(app("shop", lives, dies))
    dies.close()
    assert {site.ask("shop.example").text for _ in range(20)} == {"lives"}
    wait_for(lambda: any("is DOWN" in line for line in site.proxy.log.read_text().splitlines()), within=15)


def test_http_2_reaches_an_app(site: Site) -> None:
    site.apply(app("shop", site.instance("shop-1")))
    with Secure(site.proxy.port, site.proxy.variables["_haproxy_certificate"], ("h2",)) as connection:
        assert connection.tls.selected_alpn_protocol() == "h2"
        name = b"Shop.Example."
        headers = b"\x82\x87\x84\x01" + bytes([len(name)]) + name
        head = len(headers).to_bytes(3) + bytes([1, 5]) + (1).to_bytes(4)
        connection.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04\x00" + bytes(4))
        connection.send(head + headers)
        assert connection.until(b"shop-1")
