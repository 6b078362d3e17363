"""Input from strangers: it is shown as text, decides nothing, and begins no line of its own."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.support.access import bearer
from tests.support.postgres import free_port
from tests.support.process import SINGLETONS, Hub
from tests.support.raw import Connection, ask
from tests.support.wait import wait_for

from rota.access.scopes import Scope

READ = "a-token-that-reads"
READER = f"Authorization: Bearer {READ}"
HTML = "<img src=x onerror=alert(1)>\"'&<!--{{7*7}}{%x%}"
LINE = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z (debug|info|warning|error|critical) +\S.*")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """Give a process whose name and rows a stranger has written."""
    directory = tmp_path_factory.mktemp("hub")
    environ = {"ROTA_SERVER_DATA": str(directory / "data"), "ROTA_SERVER_NAME": HTML}
    process = Hub.start(directory / "log", environ, port=free_port()).wait()
    assert bearer(environ, Scope.HUB_READ, secret=READ) == READER
    wait_for(lambda: len(process.leading()) == SINGLETONS)
    with closing(sqlite3.connect(directory / "data" / "rota.db", timeout=10)) as database:
        database.execute("INSERT INTO task_history VALUES (NULL, ?, 9000000000000000, NULL, ?)", (HTML, HTML))
        database.execute(
            "INSERT INTO backups VALUES (?, 'operator', 'failed', 9000000000000000, NULL, NULL, NULL, ?)",
            (HTML, HTML),
        )
        database.execute("UPDATE leaders SET holder = ?", (HTML,))
        database.commit()
    yield process
    process.kill()


def test_the_page_shows_hostile_names_as_text(port: int) -> None:
    page = ask(port, "GET", "/", READER).text
    assert "onerror=alert(1)" in page, "the names are on the page"
    assert "<img" not in page
    assert "<!--" not in page
    assert page.count("{{7*7}}") >= 8, (
        "name, holders, task, outcome, backup and error stand there as they are"
    )


@pytest.mark.parametrize(
    "path",
    ["/<script>alert(1)</script>", "/%3Cscript%3E", "/..%2f..%2fetc/passwd", "/?q=<script>", "/\\evil"],
)
def test_no_answer_repeats_a_path(port: int, path: str) -> None:
    for accept in ("text/html", "application/json", "*/*"):
        answer = ask(port, "GET", path, f"Accept: {accept}")
        assert answer.status in {303, 400, 401, 404}
        for part in ("<script", "etc/passwd", "evil"):
            assert part not in answer.text
            assert part not in str(answer.headers)


@pytest.mark.parametrize("path", ["/api/webhooks/%00", "/webhooks/a%00b", "/api/webhooks/%00/deliveries"])
def test_a_path_with_nul_reaches_no_database(port: int, path: str) -> None:
    answer = ask(port, "GET", path)
    assert (answer.status, "no webhook" in answer.text) == (404, False)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1"])
def test_no_answer_repeats_the_host(port: int, host: str) -> None:
    with Connection(port) as connection:
        connection.send(f"GET / HTTP/1.1\r\n{READER}\r\nHost: {host}\r\nAccept: text/html\r\n\r\n".encode())
        answer = connection.answer()
    assert answer.status == 200
    assert "evil.example" not in answer.text + str(answer.headers)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "FOO", "GETT"])
def test_no_other_method_does_anything(port: int, method: str) -> None:
    answer = ask(port, method, "/health", "Content-Length: 0")
    assert answer.status in {400, 404, 405}
    assert "Content-Length: 0" not in answer.text


@pytest.mark.parametrize(
    "media", ["application/json", "application/xml", "text/html", "image/png", "*/*;q=0", "a"]
)
def test_an_error_is_never_of_a_type_that_it_is_not(port: int, media: str) -> None:
    answer = ask(port, "GET", "/nothing", f"Accept: {media}")
    kind = answer.headers["content-type"]
    assert kind in {"application/problem+json", "text/html; charset=utf-8"}
    assert answer.text.startswith("{" if kind == "application/problem+json" else "<!doctype html>")


def test_a_large_body_is_not_waited_for(port: int) -> None:
    with Connection(port) as connection:
        connection.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n" + bytes(1000))
        assert connection.answer().status == 405


def test_logging_stays_one_line_an_event(hub: Hub, port: int) -> None:
    for path in ("/%0aleading%20task=fake", "/%1b[31m", "/%e2%80%a8x"):
        ask(port, "GET", path, "X-Request-ID: a\x1b[31m", "User-Agent: a\x1b[31m")
    lines = hub.output().splitlines()
    assert len(lines) >= 4
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert "leading task=fake" not in hub.output()
