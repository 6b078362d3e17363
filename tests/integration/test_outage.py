"""A process and a PostgreSQL that is not there, goes away, comes back, or is a standby."""

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.access import bearer
from tests.support.postgres import Server, free_port
from tests.support.process import LED, Hub, run, tasks_of
from tests.support.raw import Answer, ask
from tests.support.settings import postgres_environ, postgres_settings
from tests.support.wait import wait_for

from rota import wiring
from rota.access.scopes import Scope
from rota.errors import EXIT_FAILED
from rota.roles import Role
from rota.store.database import Transaction

SINGLETONS = LED
TOKEN = "a-token-for-metrics"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Give a server that a test may stop."""
    own = Server.create()
    yield own
    own.destroy()


@pytest.fixture
def environ(tmp_path: Path, server: Server) -> dict[str, str]:
    given = postgres_environ(tmp_path / "data", server, server.new_schema())
    return {**given, "ROTA_SERVER_METRICS_TOKEN": TOKEN}


def serves_all_the_same(hub: Hub) -> None:
    """Check what a process answers while its database is away."""
    port = hub.port or 0
    health = ask(port, "GET", "/health")
    assert health.status == 503
    document = json.loads(health.body)
    assert document["reason"] == f"database: {document['database']['reason']}"
    assert document["leading"] == []
    assert ask(port, "HEAD", "/health").status == 503
    assert ask(port, "GET", "/").status == 401
    page = ask(port, "GET", "/", "Authorization: Bearer rota_whose", "Accept: text/html")
    assert page.status == 503
    assert page.headers["retry-after"] == "2"
    assert "The database cannot be reached" in page.text
    assert ask(port, "GET", "/sign-in").status == 200
    assert ask(port, "GET", "/health/process").status == 200
    assert ask(port, "GET", "/version").status == 200
    metrics = ask(port, "GET", "/metrics", f"Authorization: Bearer {TOKEN}").text
    assert "rota_database_reachable 0.0" in metrics
    assert "rota_leader_trust_seconds 0.0" in metrics


def test_a_process_starts_without_it_and_finds_it_when_it_comes(
    tmp_path: Path, server: Server, environ: dict[str, str], hubs: list[Hub]
) -> None:
    server.stop()
    hub = Hub.start(tmp_path / "log", environ, port=free_port())
    hubs.append(hub)
    hub.wait("failing")
    wait_for(lambda: "Connection refused" in hub.health()["reason"])
    serves_all_the_same(hub)
    server.start()
    hub.wait(within=10)
    wait_for(lambda: hub.leading() == SINGLETONS)
    reader = bearer(environ, Scope.HUB_READ)
    assert "This process does its work." in ask(hub.port or 0, "GET", "/", reader).text
    assert hub.stop() == 0
    assert "Traceback" not in hub.output()


def test_a_worker_that_serves_nothing_waits_for_it_too(
    tmp_path: Path, server: Server, environ: dict[str, str], hubs: list[Hub]
) -> None:
    server.stop()
    hub = Hub.start(tmp_path / "log", environ, "--role", "worker")
    hubs.append(hub)
    wait_for(lambda: "database unreachable reason=" in hub.output(), within=20)
    server.start()
    wait_for(lambda: hub.output().count("leading task=") == len(tasks_of(Role.WORKER)), within=15)
    assert hub.stop() == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "crashed"])
def test_one_that_goes_away_stops_what_is_led_until_it_is_back(
    tmp_path: Path, server: Server, environ: dict[str, str], hubs: list[Hub], how: signal.Signals
) -> None:
    hub = Hub.start(tmp_path / "log", environ, port=free_port())
    hubs.append(hub)
    hub.wait()
    wait_for(lambda: hub.leading() == SINGLETONS)
    server.stop(how)
    wait_for(lambda: hub.leading() == [], within=5)
    hub.wait("failing", within=6)
    serves_all_the_same(hub)
    server.start()
    hub.wait(within=10)
    wait_for(lambda: hub.leading() == SINGLETONS)
    assert hub.output().count("leading task=backups.scheduler") == 2
    assert "epoch=2" in hub.output()


async def test_what_lay_in_the_pool_when_it_restarted_fails_no_unit_of_work(
    tmp_path: Path, server: Server
) -> None:
    database = wiring.make_database(postgres_settings(tmp_path, server, server.new_schema()))
    await database.open()

    async def together(transaction: Transaction) -> None:
        await transaction.one("schema.pulse")
        await asyncio.wait_for(all_at_once.wait(), timeout=10)

    all_at_once = asyncio.Barrier(3)  # so that the pool must grow to as many
    await asyncio.gather(*(database.read(together) for _ in range(3)))
    server.stop()
    server.start()
    for _ in range(4):
        assert (await database.pulse()).schema
    await database.close()


def test_commands_say_that_it_is_not_there(server: Server, environ: dict[str, str]) -> None:
    server.stop()
    try:
        for command in (["migrate"], ["backup", "now"], ["backup", "list"]):
            done = run(command, environ)
            assert done.returncode == EXIT_FAILED
            assert done.stderr.startswith("rota: ")
            assert "Connection refused" in done.stderr
            assert done.stderr.count("\n") == 1
    finally:
        server.start()


def test_a_wrong_password_is_an_outage_with_its_reason(
    tmp_path: Path, environ: dict[str, str], hubs: list[Hub]
) -> None:
    hub = Hub.start(tmp_path / "log", {**environ, "ROTA_DATABASE_PASSWORD": "canary-wrong"}, port=free_port())
    hubs.append(hub)
    hub.wait("failing")
    wait_for(lambda: "password authentication failed" in hub.health()["reason"])
    assert "canary-wrong" not in hub.output()
    assert hub.process.poll() is None


def test_a_standby_is_refused_until_it_is_promoted(
    tmp_path: Path, server: Server, environ: dict[str, str], hubs: list[Hub]
) -> None:
    assert run(["migrate"], environ).returncode == 0
    server.stop()
    (server.directory / "data" / "standby.signal").touch()
    server.start()
    try:
        hub = Hub.start(tmp_path / "log", environ, port=free_port())
        hubs.append(hub)
        hub.wait("failing")
        said = "database: the server is a standby, or read-only: point database.url at the primary server"
        wait_for(lambda: hub.health()["reason"] == said)
        serves_all_the_same(hub)
    finally:
        with server.admin() as admin:
            admin.execute("SELECT pg_promote()")
    hub.wait(within=15)
    wait_for(lambda: hub.leading() == SINGLETONS)


def test_the_first_request_to_a_process_that_starts_finds_a_database(
    tmp_path: Path, postgres: Server, hubs: list[Hub]
) -> None:
    environ = postgres_environ(tmp_path / "data", postgres, postgres.new_schema())
    token = bearer(environ, Scope.QUEUE_READ)
    port = free_port()
    hubs.append(Hub.start(tmp_path / "log", {**environ, "ROTA_SERVER_ROLES": "web"}, port=port))

    def first() -> Answer | None:
        with suppress(ConnectionRefusedError):
            return ask(port, "GET", "/api/queue", token)
        return None

    answer = wait_for(first, within=20)
    assert answer is not None
    assert answer.status == 200, answer.body
