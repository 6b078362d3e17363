"""What a process does in its roles, and what it serves."""

import json
from pathlib import Path

import pytest
from tests.support.postgres import Server, free_port
from tests.support.process import Hub, tasks_of
from tests.support.raw import ask
from tests.support.settings import postgres_environ
from tests.support.wait import wait_for

from rota.roles import Role

TOKEN = "a-token-for-metrics"
AUTHORISED = f"Authorization: Bearer {TOKEN}"
WORKERS, WEBS = tasks_of(Role.WORKER), tasks_of(Role.WEB)
RESIDENTS = tasks_of(Role.WORKER, resident=True)  # every worker runs them, and none leads them


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"ROTA_SERVER_DATA": str(tmp_path / "data"), "ROTA_SERVER_METRICS_TOKEN": TOKEN}


def test_by_default_a_process_takes_every_role(
    tmp_path: Path, environ: dict[str, str], hubs: list[Hub]
) -> None:
    hub = Hub.start(tmp_path / "log", environ, port=free_port())
    hubs.append(hub)
    hub.wait()
    assert hub.health()["roles"] == ["web", "worker"]
    wait_for(lambda: hub.leading() == sorted(WORKERS + WEBS))


class TestWorkerAlone:
    @pytest.fixture
    def port(self, tmp_path: Path, environ: dict[str, str], hubs: list[Hub]) -> int:
        port = free_port()
        hub = Hub.start(tmp_path / "log", environ, "--role", "worker", port=port)
        hubs.append(hub)
        hub.wait()
        wait_for(lambda: hub.leading() == WORKERS)
        return port

    def test_with_an_address_it_serves_its_two_routes_and_no_other(self, port: int) -> None:
        health = json.loads(ask(port, "GET", "/health").body)
        assert (health["status"], health["roles"], health["tasks"]) == (
            "ok",
            ["worker"],
            sorted(WORKERS + RESIDENTS),
        )
        assert ask(port, "HEAD", "/health").status == 200
        assert ask(port, "GET", "/metrics", AUTHORISED).status == 200
        for path in ("/", "/version", "/health/process", "/live", "/login"):
            for method in ("GET", "HEAD", "POST", "OPTIONS"):
                assert ask(port, method, path).status == 404, f"{method} {path}"

    def test_without_an_address_it_serves_nothing_and_stops_cleanly(
        self, tmp_path: Path, environ: dict[str, str], hubs: list[Hub]
    ) -> None:
        hub = Hub.start(tmp_path / "log", environ, "--role", "worker")
        hubs.append(hub)
        wait_for(lambda: hub.output().count("leading task=") == len(WORKERS))
        assert "running roles=worker serving=nothing" in hub.output()
        assert hub.pids() == [hub.process.pid]
        assert hub.stop() == 0
        said = hub.output()
        assert said.index(f"resigned tasks={','.join(WORKERS)}") < said.index("stopped")
        assert "Traceback" not in said


class TestWebAlone:
    def test_it_runs_the_tasks_of_its_role_and_serves_everything(
        self, tmp_path: Path, environ: dict[str, str], hubs: list[Hub]
    ) -> None:
        port = free_port()
        hub = Hub.start(tmp_path / "log", environ, "--role", "web", port=port)
        hubs.append(hub)
        health = hub.wait().health()
        assert (health["roles"], health["tasks"]) == (["web"], WEBS)
        wait_for(lambda: hub.leading() == WEBS)
        for path in ("/sign-in", "/health/process", "/version", "/metrics"):
            assert ask(port, "GET", path, AUTHORISED).status == 200
        assert "maintenance.nightly" not in ask(port, "GET", "/metrics", AUTHORISED).text
        assert hub.stop() == 0
        assert hub.output().count("leading task=") == len(WEBS)
        assert not (tmp_path / "data" / "backups").exists()


def test_without_a_token_there_are_no_metrics(
    tmp_path: Path, environ: dict[str, str], hubs: list[Hub]
) -> None:
    del environ["ROTA_SERVER_METRICS_TOKEN"]
    port = free_port()
    hubs.append(Hub.start(tmp_path / "log", environ, port=port).wait())
    for header in ("X: y", "Authorization: Bearer ", "Authorization: Bearer x"):
        answer = ask(port, "GET", "/metrics", header)
        assert answer.status == 404
        assert answer.body == ask(port, "GET", "/nothing").body


def test_a_process_that_is_not_on_the_primary_leaves_its_tasks_alone(
    tmp_path: Path, postgres: Server, hubs: list[Hub]
) -> None:
    environ = postgres_environ(tmp_path / "data", postgres, postgres.new_schema())
    elsewhere = {**environ, "ROTA_SERVER_PRIMARY": "false"}
    hub = Hub.start(tmp_path / "log", elsewhere, port=free_port())
    hubs.append(hub)
    health = hub.wait().health()
    assert (health["roles"], health["primary"], health["tasks"]) == (
        ["web", "worker"],
        False,
        sorted(
            [
                *tasks_of(Role.WORKER, primary=False),
                *tasks_of(Role.WORKER, resident=True, primary=False),
                *WEBS,
            ]
        ),
    )


def test_the_variable_that_names_no_role_means_every_role(
    tmp_path: Path, environ: dict[str, str], hubs: list[Hub]
) -> None:
    file = tmp_path / "hub.toml"
    file.write_text('[server]\nroles = ["web"]\n')
    hub = Hub.start(
        tmp_path / "log", {**environ, "ROTA_SERVER_ROLES": " ,"}, "--settings", str(file), port=free_port()
    )
    hubs.append(hub)
    assert hub.wait().health()["roles"] == ["web", "worker"]


def test_what_a_process_makes_is_for_its_own_user_alone(
    tmp_path: Path, environ: dict[str, str], hubs: list[Hub]
) -> None:
    hub = Hub.start(tmp_path / "log", environ, port=free_port())
    hubs.append(hub)
    hub.wait()
    backups = tmp_path / "data" / "backups"
    wait_for(backups.is_dir)
    wait_for(lambda: [path.name[:5] for path in backups.iterdir()] == ["rota-"], within=20)
    made = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
    open_ones = {str(path): oct(path.stat().st_mode & 0o777) for path in made if path.stat().st_mode & 0o077}
    assert open_ones == {}
    assert {path.name for path in made} >= {"data", "rota.db", "rota.lock", "backups"}
