"""What a serving process answers, request by request."""

import json
import re
import subprocess
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from tests.support.access import bearer
from tests.support.postgres import free_port
from tests.support.process import SINGLETONS, Hub
from tests.support.raw import Connection, ask, exchange, status
from tests.support.wait import wait_for

from rota import __version__
from rota.access.scopes import Scope
from rota.store.migrations import program_schema
from rota.tasks.table import TABLE

TOKEN = "a-token-for-metrics-ü"
AUTHORISED = f"Authorization: Bearer {TOKEN.encode().decode('latin-1')}"  # its own bytes, as clients send it
READ = "a-token-that-reads"
READER = f"Authorization: Bearer {READ}"
HOST = b"Host: hub.example\r\n"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """Give one process with every role, for tests that only ask."""
    directory = tmp_path_factory.mktemp("hub")
    environ = {"ROTA_SERVER_DATA": str(directory / "data"), "ROTA_SERVER_METRICS_TOKEN": TOKEN}
    process = Hub.start(directory / "log", environ, port=free_port()).wait()
    wait_for(lambda: len(process.leading()) == SINGLETONS)
    assert bearer(environ, Scope.HUB_READ, secret=READ) == READER
    yield process
    process.kill()


class TestRoutes:
    PATHS = ("/sign-in", "/health", "/health/process", "/version", "/metrics")

    @pytest.mark.parametrize("path", PATHS)
    def test_head_answers_as_get_without_a_body(self, port: int, path: str) -> None:
        got, head = ask(port, "GET", path, AUTHORISED), ask(port, "HEAD", path, AUTHORISED)
        assert (got.status, head.status) == (200, 200)
        assert got.body
        assert head.body == b""
        assert head.headers["content-type"] == got.headers["content-type"]
        assert set(head.headers) == set(got.headers)

    @pytest.mark.parametrize("path", PATHS)
    def test_what_a_route_does_not_do_is_answered_with_what_it_does(self, port: int, path: str) -> None:
        answer = ask(port, "DELETE", path, AUTHORISED)
        assert answer.status == 405
        assert {"GET", "HEAD"} <= {method.strip() for method in answer.headers["allow"].split(",")}

    def test_health_says_what_the_process_is_and_does(self, hub: Hub, port: int) -> None:
        answer = ask(port, "GET", "/health")
        document = json.loads(answer.body)
        assert document["tlog"]["reachable"] is True
        assert document | {"leading": [], "name": "", "database": {}, "tlog": {}} == {
            "status": "ok",
            "name": "",
            "version": __version__,
            "roles": ["web", "worker"],
            "primary": True,
            "leading": [],
            "failing": {},
            "tasks": sorted(entry.name for entry in TABLE),
            "tlog": {},
            "database": {},
            "draining": False,
        }
        assert document["database"]["kind"] == "sqlite"
        assert document["database"]["reachable"]
        assert document["database"]["schema"] == program_schema()
        assert answer.headers["cache-control"] == "no-store"
        assert hub.process.poll() is None

    def test_the_process_is_healthy_by_itself(self, port: int) -> None:
        assert json.loads(ask(port, "GET", "/health/process").body) == {"status": "serving"}

    def test_version_says_which_program_this_is(self, port: int) -> None:
        document = json.loads(ask(port, "GET", "/version").body)
        assert document == {"version": __version__, "schema": program_schema()}

    def test_the_page_is_a_page_with_a_policy_that_runs_nothing(self, port: int) -> None:
        answer = ask(port, "GET", "/", READER, "Accept: text/html")
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "This process does its work." in answer.text
        assert "maintenance.nightly" in answer.text
        assert re.findall(r"<script(?! src=\"/assets/[a-z.]+\" defer></script>)", answer.text) == []

    def test_an_unknown_address_is_answered_in_the_form_that_is_asked_for(self, port: int) -> None:
        for_programs = ask(port, "GET", "/nothing")
        assert for_programs.status == 404
        assert json.loads(for_programs.body)["detail"] == "There is nothing at this address."
        for_people = ask(port, "GET", "/nothing", "Accept: text/html,*/*;q=0.1")
        assert for_people.status == 404
        assert for_people.headers["content-type"] == "text/html; charset=utf-8"
        assert "There is nothing at this address." in for_people.text

    @pytest.mark.parametrize("path", ["/health/", "/%00", "/%zz", "/%2e%2e/etc/passwd"])
    def test_an_odd_path_is_no_other_path(self, port: int, path: str) -> None:
        assert ask(port, "GET", path).status == 404

    def test_every_answer_has_a_requests_id(self, port: int) -> None:
        first, second = (ask(port, "GET", "/version").headers["x-request-id"] for _ in range(2))
        assert first != second
        assert (
            ask(port, "GET", "/version", "X-Request-ID: of-the-proxy").headers["x-request-id"]
            == "of-the-proxy"
        )

    @pytest.mark.parametrize("given", ["a b", "x" * 65, "<script>", "ä"])
    def test_an_id_that_is_not_harmless_is_replaced(self, port: int, given: str) -> None:
        answer = ask(port, "GET", "/version", f"X-Request-ID: {given}")
        assert answer.status == 200
        assert answer.headers["x-request-id"] != given
        assert re.fullmatch(r"[a-z0-9-]{8,40}", answer.headers["x-request-id"])


class TestHost:
    @pytest.mark.parametrize("host", ["hub.example", "hub.example:8420", "127.0.0.1", "[::1]:80", "HUB_1"])
    def test_one_good_host_is_taken(self, port: int, host: str) -> None:
        assert status(port, f"GET /version HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()) == 200

    @pytest.mark.parametrize("version", [b"1.0", b"1.1"])
    @pytest.mark.parametrize("path", [b"/", b"/health", b"/metrics", b"/nothing"])
    def test_none_is_refused_everywhere(self, port: int, path: bytes, version: bytes) -> None:
        assert status(port, b"GET " + path + b" HTTP/" + version + b"\r\n\r\n") == 400

    @pytest.mark.parametrize("second", [HOST, b"Host: other.example\r\n", b"HOST: hub.example\r\n"])
    def test_two_are_refused(self, port: int, second: bytes) -> None:
        assert exchange(port, b"GET / HTTP/1.1\r\n" + HOST + second + b"\r\n") == (400, True)

    @pytest.mark.parametrize(
        "host", [b"", b"a b", b"a/b", b"user@h", b"h:99999999", b"h:", b"<b>", b"h\xe4", b"a,b"]
    )
    def test_a_malformed_one_is_refused(self, port: int, host: bytes) -> None:
        assert status(port, b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n") == 400


POST, GET = b"POST / HTTP/1.1\r\n" + HOST, b"GET / HTTP/1.1\r\n" + HOST
MALFORMED: dict[str, tuple[bytes, int]] = {
    "length and chunks": (POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks and length": (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400),
    "two lengths": (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
    "signed length": (POST + b"Content-Length: +2\r\n\r\nab", 400),
    "negative length": (POST + b"Content-Length: -1\r\n\r\n", 400),
    "space before the colon": (POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks in HTTP/1.0": (
        b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "unknown coding": (POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    "bare line feeds": (b"GET / HTTP/1.1\nHost: h\n\n", 400),
    "bare line feed at the end": (b"GET / HTTP/1.1\r\nHost: h\n\r\n", 400),
    "bare carriage return": (GET + b"X: a\rb\r\n\r\n", 400),
    "NUL in a value": (GET + b"X: a\0b\r\n\r\n", 400),
    "NUL in the path": (b"GET /\0 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "folded header": (GET + b"X: a\r\n b\r\n\r\n", 400),
    "space in a name": (GET + b"X y: a\r\n\r\n", 400),
    "bad chunk size": (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n", 400),
    "line feed in a chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\n2;a=\nb\r\nab\r\n0\r\n\r\n", 400),
    "lower-case method": (b"get / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "HTTP/1.9": (b"GET / HTTP/1.9\r\n" + HOST + b"\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "TLS": (bytes.fromhex("16030100c8010000c40303") + bytes(190) + b"\r\n\r\n", 400),
    "not UTF-8": (b"GET /\xff HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "no slash": (b"GET x HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a header of 16 kB": (GET + b"X: " + b"a" * 16384 + b"\r\n\r\n", 431),
    "150 headers": (GET + b"".join(b"X-%d: a\r\n" % number for number in range(150)) + b"\r\n", 431),
    "a URL of 10 kB": (b"GET /" + b"a" * 10000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_request_is_refused_and_its_connection_closed(port: int, case: str) -> None:
    data, wanted = MALFORMED[case]
    assert exchange(port, data) == (wanted, True)
    assert ask(port, "GET", "/health/process").status == 200


def test_pipelined_requests_are_each_answered_in_order(port: int) -> None:
    paths = ["/version", "/nothing", "/health/process"]
    with Connection(port) as connection:
        connection.send(
            b"".join(b"GET " + path.encode() + b" HTTP/1.1\r\n" + HOST + b"\r\n" for path in paths)
        )
        answers = connection.raw(b"HTTP/1.1 ", wanted=3)
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200", b"404", b"200"]


FORWARDED = (
    "X-Forwarded-For: 203.0.113.9",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: evil.example",
    "X-Forwarded-Prefix: /evil",
    "X-Real-IP: 203.0.113.9",
    "Forwarded: for=203.0.113.9;host=evil.example;proto=https",
    "X-Original-URL: /version",
    "X-Rewrite-URL: /version",
    "X-HTTP-Method-Override: DELETE",
    "X-Remote-User: admin",
    "SCRIPT_NAME: /evil",
)


@pytest.mark.parametrize("path", ["/health/process", "/version", "/nothing", "/metrics"])
def test_forwarded_headers_change_nothing(port: int, path: str) -> None:
    plain, forwarded = ask(port, "GET", path), ask(port, "GET", path, *FORWARDED)
    assert (forwarded.status, forwarded.body) == (plain.status, plain.body)
    different = {"date", "x-request-id"}
    assert {k: v for k, v in forwarded.headers.items() if k not in different} == {
        k: v for k, v in plain.headers.items() if k not in different
    }


class TestMetrics:
    def test_the_token_opens_them(self, port: int) -> None:
        answer = ask(port, "GET", "/metrics", AUTHORISED)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/plain; version=")
        for name in (
            "process_resident_memory_bytes",
            'rota_leader_held{task="maintenance.nightly"} 1.0',
            'rota_leader_epoch{task="backups.scheduler"} 1.0',
            "rota_leader_trust_seconds",
            "rota_database_reachable 1.0",
            f'rota_build_info{{roles="web,worker",version="{__version__}"}} 1.0',
        ):
            assert name in answer.text, name

    @pytest.mark.parametrize(
        "header",
        [
            "X: y",
            "Authorization: Bearer wrong",
            f"Authorization: Bearer {TOKEN}x",
            f"Authorization: Bearer {TOKEN[:-1]}",
            "Authorization: Bearer",
            f"Authorization: Basic {TOKEN}",
            f"Authorization: {TOKEN}",
            f"Cookie: token={TOKEN}",
        ],
    )
    def test_anything_else_does_not(self, port: int, header: str) -> None:
        answer = ask(port, "GET", "/metrics", header)
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert b"rota_" not in answer.body

    def test_a_token_in_the_address_does_not_either(self, port: int) -> None:
        assert ask(port, "GET", f"/metrics?token={quote(TOKEN)}").status == 401

    def test_requests_are_counted_by_route_and_never_by_path(self, port: int) -> None:
        def counted(label: str) -> float:
            text = ask(port, "GET", "/metrics", AUTHORISED).text
            found = [
                line
                for line in text.splitlines()
                if line.startswith(f"rota_http_request_seconds_count{{{label}")
            ]
            return sum(float(line.rsplit(" ", 1)[1]) for line in found)

        known, unknown = 'method="GET",route="/version"', 'method="GET",route="unknown",status="404"'
        before = counted(known), counted(unknown)
        ask(port, "GET", "/version?canary-in-query=1")
        ask(port, "GET", "/canary-in-path")
        ask(port, "CANARY", "/version")
        assert (counted(known), counted(unknown)) == (before[0] + 1, before[1] + 1)
        assert "canary" not in ask(port, "GET", "/metrics", AUTHORISED).text.casefold()


def test_the_listen_backlog_is_2048(port: int) -> None:
    shown = subprocess.run(
        ["ss", "--no-header", "--listening", "--tcp", "--numeric", f"sport = :{port}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert shown.split()[2] == "2048", shown


def test_there_is_no_control_socket(hub: Hub) -> None:
    listening = subprocess.run(
        ["ss", "--no-header", "--listening", "--processes", "--unix", "--tcp", "--udp"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    ours = [line for line in listening.splitlines() if any(f"pid={pid}," in line for pid in hub.pids())]
    assert len(ours) == 1, ours
    assert f":{hub.port} " in ours[0]


def test_the_first_beat_after_the_start_says_the_address(hub: Hub) -> None:
    assert f"serving roles=web,worker address=127.0.0.1:{hub.port} first_answer=200" in hub.output()
