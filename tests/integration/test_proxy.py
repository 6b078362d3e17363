"""A real HAProxy with the Ansible role's configuration: what it lets through, what it refuses, and how."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.support.haproxy import HUB, Haproxy, Secure, Web
from tests.support.raw import Answer, Connection
from tests.support.wait import wait_for

BODY_MAX = 100_000
REQUEST_TIMEOUT = 1
IDLE_TIMEOUT = 2
LIMITS = {
    "haproxy_body_max": BODY_MAX,
    "haproxy_request_timeout": REQUEST_TIMEOUT,
    "haproxy_idle_timeout": IDLE_TIMEOUT,
    "haproxy_stream_timeout": 60,
}


@pytest.fixture(scope="module")
def webs() -> Iterator[list[Web]]:
    """Give the servers w1-1 and w2-1."""
    with Web.serving("w1-1") as first, Web.serving("w2-1") as second:
        yield [first, second]


@pytest.fixture(scope="module")
def shared(webs: list[Web], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Haproxy]:
    proxy = Haproxy.start(tmp_path_factory.mktemp("proxy"), {web.name: web.port for web in webs}, **LIMITS)
    yield proxy
    proxy.stop()


@pytest.fixture
def proxy(shared: Haproxy, webs: list[Web]) -> Haproxy:
    """Give the proxy before both servers, which have been asked nothing yet."""
    for web in webs:
        web.asked.clear()
        web.headers.clear()
        web.paths.clear()
    return shared


def asked(webs: list[Web]) -> list[tuple[str, str]]:
    return [request for web in webs for request in web.asked]


def said(answer: Answer, status: int) -> str:
    """Check that the proxy itself answered, in the hub's own form; return its sentence."""
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/json"
    document = json.loads(answer.body)
    assert list(document) == ["error", "description"]
    return str(document["description"])


class TestName:
    @pytest.mark.parametrize("host", [HUB, HUB.upper(), f"{HUB}:443", f"{HUB}:8443"])
    def test_the_hubs_name_is_served(self, proxy: Haproxy, host: str) -> None:
        with proxy.connect() as connection:
            connection.send(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert connection.answer().status == 200

    @pytest.mark.parametrize(
        "start",
        [
            "GET / HTTP/1.1\r\nHost: other.example",
            f"GET / HTTP/1.1\r\nHost: {HUB}.other.example",
            "GET / HTTP/1.1\r\nHost: 127.0.0.1",
            "GET / HTTP/1.1\r\nHost:",
            "GET / HTTP/1.0\r\nAccept: text/html",
        ],
    )
    def test_no_other_name_is_and_the_answer_says_which(
        self, proxy: Haproxy, webs: list[Web], start: str
    ) -> None:
        for connection in (proxy.connect(), Connection(proxy.plain_port)):
            with connection:
                connection.send(f"{start}\r\n\r\n".encode())
                assert f"https://{HUB}." in said(connection.answer(), 404)
        assert asked(webs) == []

    def test_two_hosts_are_refused(self, proxy: Haproxy, webs: list[Web]) -> None:
        answer = proxy.ask("GET", "/", "Host: other.example")
        assert answer.status in (400, 404)
        assert asked(webs) == []

    def test_without_tls_everything_leads_to_it(self, proxy: Haproxy, webs: list[Web]) -> None:
        with Connection(proxy.plain_port) as connection:
            answer = connection.ask("POST", "/a/b?c=d")
        assert (answer.status, answer.headers["location"]) == (308, f"https://{HUB}/a/b?c=d")
        assert asked(webs) == []

    def test_a_certificate_authoritys_question_reaches_the_hub(self, proxy: Haproxy, webs: list[Web]) -> None:
        path = "/.well-known/acme-challenge/token"
        with Connection(proxy.plain_port) as connection:
            assert connection.ask("GET", path).status == 200
        assert asked(webs) == [("GET", path)]


class TestTls:
    def test_http_2_is_offered(self, proxy: Haproxy) -> None:
        with Secure(proxy.port, proxy.variables["_haproxy_certificate"], ("h2", "http/1.1")) as connection:
            assert connection.tls.selected_alpn_protocol() == "h2"

    def test_what_is_older_than_1_2_is_not(self, proxy: Haproxy) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="is deprecated"):
            context.minimum_version = ssl.TLSVersion.TLSv1
        with pytest.warns(DeprecationWarning, match="is deprecated"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        with (
            socket.create_connection(("127.0.0.1", proxy.port)) as plain,
            pytest.raises(ssl.SSLError, match=r"(?i)protocol version"),
        ):
            context.wrap_socket(plain)


class TestHeaders:
    FORGED = (
        "X-Forwarded-For: 6.6.6.6",
        "x-forwarded-proto: http",
        "X-Forwarded-Host: evil.example",
        "X-Forwarded-Prefix: /evil",
        "X-Hub-User: admin",
        "x-hub-admin: 1",
        "X_Hub_User: admin",
        "Forwarded: for=6.6.6.6",
        "X-Real-IP: 6.6.6.6",
    )

    def test_nobody_forges_what_the_proxy_says(self, proxy: Haproxy, webs: list[Web]) -> None:
        assert proxy.ask("GET", "/", *self.FORGED).status == 200
        ((headers),) = [headers for web in webs for headers in web.headers]
        sent = [(name.lower(), value) for name, value in headers]
        assert not any(word in value for _, value in sent for word in ("6.6.6.6", "evil", "admin"))
        assert [value for name, value in sent if name == "host"] == [HUB]
        ours = {name: value for name, value in sent if name.startswith("x-")}
        assert len(ours.pop("x-request-id")) == 36
        assert ours == {
            "x-forwarded-for": "127.0.0.1",
            "x-forwarded-proto": "https",
            "x-forwarded-host": HUB,
        }

    def test_a_clients_request_id_is_kept(self, proxy: Haproxy, webs: list[Web]) -> None:
        proxy.ask("GET", "/", "X-Request-ID: build-7")
        ((headers),) = [headers for web in webs for headers in web.headers]
        assert [value for name, value in headers if name.lower() == "x-request-id"] == ["build-7"]


class TestLimits:
    def test_headers_that_the_hub_would_not_take(self, proxy: Haproxy, webs: list[Web]) -> None:
        assert proxy.ask("GET", "/", f"Cookie: {'c' * 7000}").status == 200
        assert "8190 bytes of headers" in said(proxy.ask("GET", "/", f"Cookie: {'c' * 9000}"), 431)
        # Longer than its buffer, and never read as a request: the words are HAProxy's own.
        assert proxy.ask("GET", "/", f"Cookie: {'c' * 16400}").status == 400
        assert len(asked(webs)) == 1

    @pytest.mark.parametrize("size", [BODY_MAX + 1, 2**31 + 1, 2**32, 2**32 + 1, 2**63 - 1])
    def test_a_body_that_is_too_large_is_refused_before_it_is_sent(
        self, proxy: Haproxy, webs: list[Web], size: int
    ) -> None:
        answer = proxy.ask("POST", "/", f"Content-Length: {size}", "Expect: 100-continue")
        assert f"{BODY_MAX} bytes (haproxy_body_max)" in said(answer, 413)
        assert asked(webs) == []

    @pytest.mark.parametrize("size", ["-1", "18446744073709551617", "1, 2", "0x10", "+5"])
    def test_a_length_that_is_none_is_refused(self, proxy: Haproxy, webs: list[Web], size: str) -> None:
        assert proxy.ask("POST", "/", f"Content-Length: {size}").status in (400, 413)
        assert asked(webs) == []

    def test_a_body_without_a_length_is_refused(self, proxy: Haproxy, webs: list[Web]) -> None:
        with proxy.connect() as connection:
            start = f"POST / HTTP/1.1\r\nHost: {HUB}\r\nTransfer-Encoding: chunked\r\n\r\n"
            connection.send(f"{start}1\r\nx\r\n".encode())
            assert "Content-Length" in said(connection.answer(), 411)
        assert asked(webs) == []

    def test_a_body_without_a_length_is_refused_in_http_2_too(self, proxy: Haproxy, webs: list[Web]) -> None:
        with Secure(proxy.port, proxy.variables["_haproxy_certificate"], ("h2",)) as connection:
            headers = b"\x83\x87\x84\x01" + bytes([len(HUB)]) + HUB.encode()
            connection.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
            connection.send(frame(1, 4, 1, headers) + frame(0, 0, 1, b"x"))
            answer = connection.until(b"Content-Length")
        assert b"411" in answer
        assert asked(webs) == []

    def test_a_body_of_the_greatest_size_arrives(self, proxy: Haproxy) -> None:
        with proxy.connect() as connection:
            connection.send(f"POST / HTTP/1.1\r\nHost: {HUB}\r\nContent-Length: {BODY_MAX}\r\n\r\n".encode())
            connection.send(b"x" * BODY_MAX)
            assert connection.answer("POST").status == 200

    @pytest.mark.parametrize(
        ("start", "words"),
        [
            # Never read as a request: the words are HAProxy's own.
            ("GET /", "in time"),
            (f"GET / HTTP/1.1\r\nHost: {HUB}\r\nX-Slow: ", "in time"),
            (
                f"POST / HTTP/1.1\r\nHost: {HUB}\r\nContent-Length: 1000\r\n\r\n",
                f"within {REQUEST_TIMEOUT} s",
            ),
        ],
        ids=["first line", "headers", "body"],
    )
    def test_who_sends_byte_by_byte_is_cut_off(
        self, proxy: Haproxy, webs: list[Web], start: str, words: str
    ) -> None:
        began = time.monotonic()
        with proxy.connect() as connection:
            connection.send(start.encode())
            stop = threading.Event()
            slow = threading.Thread(target=drip, args=(connection, stop))
            slow.start()
            try:
                answer = connection.answer()
                assert (answer.status, words in answer.text) == (408, True), answer
                assert connection.closed()
            finally:
                stop.set()
                slow.join()
        assert time.monotonic() - began < REQUEST_TIMEOUT + 2
        assert asked(webs) == []


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame of HTTP/2."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def drip(connection: Connection, stop: threading.Event) -> None:
    """Send a byte now and then, until told to stop or cut off."""
    while not stop.wait(0.1):
        try:
            connection.send(b"a")
        except OSError:
            return


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    """Close without a byte, as a process does that dies."""
    handler.close_connection = True


class TestRetries:
    def test_what_only_reads_is_asked_again_elsewhere(self, proxy: Haproxy, webs: list[Web]) -> None:
        webs[0].paths["/x"] = hang_up
        assert {proxy.ask("GET", "/x").text for _ in range(6)} == {"w2-1"}
        assert ("GET", "/x") in webs[0].asked

    @pytest.mark.parametrize("method", ["POST", "PUT"])
    def test_what_may_act_is_never_sent_twice(self, proxy: Haproxy, webs: list[Web], method: str) -> None:
        for web in webs:
            web.paths["/x"] = hang_up
        assert "before you repeat it" in said(proxy.ask(method, "/x", "Content-Length: 0"), 502)
        assert asked(webs) == [(method, "/x")]

    def test_what_found_no_connection_goes_elsewhere_whatever_it_is(
        self, webs: list[Web], tmp_path: Path
    ) -> None:
        with Web.serving("dead-1") as dead:
            proxy = Haproxy.start(tmp_path, {"dead-1": dead.port, "w2-1": webs[1].port}, **LIMITS)
            try:
                wait_for(proxy.settled)
                dead.close()
                for method in ("GET", "POST") * 3:
                    assert proxy.ask(method, "/", "Content-Length: 0").text == "w2-1"
                # It counted as up the whole time: three checks must fail.
                assert all(server.up for server in proxy.servers())
            finally:
                proxy.stop()


class TestAbsence:
    def test_nobody_is_up(self, tmp_path: Path) -> None:
        proxy = Haproxy.start(tmp_path, {}, **LIMITS)
        try:
            assert "/health/process" in said(proxy.ask("GET", "/"), 503)
        finally:
            proxy.stop()

    def test_nobody_answers(self, proxy: Haproxy, webs: list[Web]) -> None:
        gate = threading.Event()

        def never(handler: BaseHTTPRequestHandler) -> None:
            gate.wait(30)
            handler.close_connection = True

        for web in webs:
            web.paths["/x"] = never
        try:
            assert f"within {IDLE_TIMEOUT} s" in said(proxy.ask("POST", "/x", "Content-Length: 0"), 504)
        finally:
            gate.set()
        assert asked(webs) == [("POST", "/x")]


class TestStreams:
    @pytest.mark.parametrize(
        ("path", "header"), [("/live", "Accept: */*"), ("/x", "Accept: text/event-stream")]
    )
    def test_a_stream_outlives_its_silence_and_is_not_held_back(
        self, proxy: Haproxy, webs: list[Web], path: str, header: str
    ) -> None:
        gates = [threading.Event(), threading.Event()]

        def stream(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Type", "text/event-stream")
            handler.end_headers()
            for number, gate in enumerate(gates):
                gate.wait(30)
                handler.wfile.write(f"data: {number}\r\n\r\n".encode())
            handler.close_connection = True

        for web in webs:
            web.paths[path] = stream
        try:
            with proxy.connect() as connection:
                connection.send(f"GET {path} HTTP/1.1\r\nHost: {HUB}\r\n{header}\r\n\r\n".encode())
                connection.raw(b"text/event-stream", 1)
                gates[0].set()
                connection.raw(b"data: 0", 1)
                # Longer than a connection may be silent otherwise, on either side.
                assert not connection.closed(within=2 * IDLE_TIMEOUT + 1)
                gates[1].set()
                assert connection.closed()
        finally:
            for gate in gates:
                gate.set()


class TestRooms:
    @pytest.mark.parametrize("path", ["/live", "/rooms", "/rooms/7/choice"])
    def test_whoever_is_in_a_room_comes_back_to_the_same_process(self, proxy: Haproxy, path: str) -> None:
        first = proxy.ask("GET", path)
        cookie = first.headers["set-cookie"]
        assert {"HttpOnly", "Secure", "SameSite=Lax"} <= set(cookie.split("; "))
        again = {proxy.ask("GET", path, f"Cookie: {cookie.split(';')[0]}").text for _ in range(6)}
        assert again == {first.text}

    def test_elsewhere_nobody_gets_a_cookie(self, proxy: Haproxy) -> None:
        assert "set-cookie" not in proxy.ask("GET", "/roomsandmore").headers


def test_root_alone_gives_orders(proxy: Haproxy) -> None:
    assert Path(proxy.variables["_haproxy_socket"]).stat().st_mode & 0o777 == 0o600


def test_a_process_that_says_it_drains_gets_nothing_more(proxy: Haproxy, webs: list[Web]) -> None:
    webs[0].healthy = False
    try:
        wait_for(lambda: [server.up for server in proxy.servers()] == [False, True, False, True], within=15)
        assert {proxy.ask("GET", path).text for path in ("/", "/live") * 3} == {"w2-1"}
    finally:
        webs[0].healthy = True
    wait_for(proxy.settled, within=20)
