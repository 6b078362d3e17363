"""What ends the program at its start, with a code that a supervisor does not restart on."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.pooler import Pooler
from tests.support.postgres import Server, free_port
from tests.support.process import Hub, run
from tests.support.settings import postgres_environ

from rota.errors import EXIT_CONFIG, EXIT_FAILED


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def environ(data: Path) -> dict[str, str]:
    return {"ROTA_SERVER_DATA": str(data), "ROTA_SERVER_ADDRESS": f"127.0.0.1:{free_port()}"}


@pytest.fixture(params=["serving", "serving nothing"])
def shaped(request: pytest.FixtureRequest, data: Path) -> tuple[list[str], dict[str, str]]:
    """Give the options and the environment for each way through the start, with gunicorn and without."""
    nothing = request.param == "serving nothing"
    address = {} if nothing else {"ROTA_SERVER_ADDRESS": f"127.0.0.1:{free_port()}"}
    return ["serve", *(["--role", "worker"] if nothing else [])], {"ROTA_SERVER_DATA": str(data), **address}


class TestSettings:
    def test_a_wrong_one_names_key_source_and_remedy(self, environ: dict[str, str]) -> None:
        done = run(["serve"], {**environ, "ROTA_SERVER_ADRESS": "x", "ROTA_BACKUPS_KEEP": "many"})
        assert done.returncode == EXIT_CONFIG
        assert done.stderr == (
            "rota: backups.keep (ROTA_BACKUPS_KEEP): must be a whole number, not 'many'\n"
            'server.adress (ROTA_SERVER_ADRESS): unknown key; did you mean "address"?\n'
        )

    def test_an_unknown_role_stops_the_program(self, environ: dict[str, str]) -> None:
        done = run(["serve", "--role", "edge"], environ)
        assert done.returncode == EXIT_CONFIG
        assert done.stderr == (
            'rota: server.roles (--role): unknown role "edge": the roles are web and worker\n'
        )

    def test_a_key_file_open_to_others_does_too(self, tmp_path: Path, environ: dict[str, str]) -> None:
        (tmp_path / "server-metrics-token").write_text("x")
        (tmp_path / "server-metrics-token").chmod(0o644)
        done = run(["serve"], {**environ, "CREDENTIALS_DIRECTORY": str(tmp_path)})
        assert done.returncode == EXIT_CONFIG
        assert "mode 0644 lets other users in: chmod 0600" in done.stderr


class TestOneProcess:
    @pytest.fixture
    def first(self, tmp_path: Path, data: Path) -> Iterator[Hub]:
        hub = Hub.start(tmp_path / "first.log", {"ROTA_SERVER_DATA": str(data)}, port=free_port()).wait()
        yield hub
        hub.kill()

    def test_a_second_one_on_sqlite_is_refused_by_name(
        self, first: Hub, data: Path, shaped: tuple[list[str], dict[str, str]]
    ) -> None:
        done = run(*shaped)
        assert done.returncode == EXIT_CONFIG
        assert f"process {first.process.pid} already serves {data}" in done.stderr
        assert "stop it first, give this one another --data, or use PostgreSQL" in done.stderr
        assert first.health()["status"] == "ok"

    def test_a_second_one_with_another_data_directory_and_the_same_database_is_too(
        self, first: Hub, tmp_path: Path, data: Path
    ) -> None:
        address = {"ROTA_SERVER_ADDRESS": f"127.0.0.1:{free_port()}"}
        done = run(
            ["serve", "--data", str(tmp_path / "other")],
            {**address, "ROTA_DATABASE_URL": f"sqlite:{data / 'rota.db'}"},
        )
        assert done.returncode == EXIT_CONFIG
        assert f"process {first.process.pid} already serves {data}" in done.stderr

    def test_a_killed_one_leaves_the_place_free(self, first: Hub, tmp_path: Path, data: Path) -> None:
        first.kill()
        again = Hub.start(tmp_path / "again.log", {"ROTA_SERVER_DATA": str(data)}, port=free_port())
        try:
            again.wait()
        finally:
            again.kill()

    def test_commands_work_beside_it(self, first: Hub, data: Path) -> None:
        assert first.port
        done = run(["backup", "now"], {"ROTA_SERVER_DATA": str(data)})
        assert done.returncode == 0, done.stderr


class TestSchema:
    LATER = (
        "INSERT INTO {}schema_migrations (number, name, tolerates, digest, applied_by{}) "
        "VALUES (999, 'later', 999, 'x', 'x'{})"
    )
    SAID = "the database needs a program of schema 999 or newer, and this one has"

    def test_too_new_on_sqlite(self, data: Path, shaped: tuple[list[str], dict[str, str]]) -> None:
        assert run(["migrate", "--data", str(data)]).returncode == 0
        with closing(sqlite3.connect(data / "rota.db")) as database:
            database.execute(self.LATER.format("", ", applied_at", ", 0"))
            database.commit()
        done = run(*shaped)
        assert done.returncode == EXIT_CONFIG, done.stderr
        assert self.SAID in done.stderr
        assert "install the release that the other processes run" in done.stderr
        for noise in ("Traceback", "Master", "App failed to load"):
            assert noise not in done.stderr

    def test_too_new_on_postgresql(self, data: Path, postgres: Server, environ: dict[str, str]) -> None:
        schema = postgres.new_schema()
        environ = {**environ, **postgres_environ(data, postgres, schema)}
        assert run(["migrate"], environ).returncode == 0
        with postgres.admin("rota") as admin:
            admin.execute(self.LATER.format(f"{schema}.", "", "").encode())
        done = run(["serve"], environ)
        assert done.returncode == EXIT_CONFIG, done.stderr
        assert self.SAID in done.stderr

    def test_of_another_history(self, data: Path) -> None:
        assert run(["migrate", "--data", str(data)]).returncode == 0
        with closing(sqlite3.connect(data / "rota.db")) as database:
            database.execute("UPDATE schema_migrations SET digest = 'x'")
            database.commit()
        done = run(["migrate", "--data", str(data)])
        assert done.returncode == EXIT_CONFIG, done.stderr
        assert "is not this program's" in done.stderr

    def test_a_database_that_becomes_too_new_while_it_serves(self, tmp_path: Path, data: Path) -> None:
        hub = Hub.start(tmp_path / "log", {"ROTA_SERVER_DATA": str(data)}, port=free_port()).wait()
        try:
            with closing(sqlite3.connect(data / "rota.db")) as database:
                database.execute(self.LATER.format("", ", applied_at", ", 0"))
                database.commit()
            assert hub.process.wait(timeout=15) == EXIT_CONFIG
        finally:
            hub.kill()
        assert self.SAID in hub.output()


def test_a_database_library_that_is_not_the_pinned_one_is_refused_through_gunicorn_too(
    data: Path, postgres: Server, environ: dict[str, str]
) -> None:
    environ = {**environ, **postgres_environ(data, postgres, postgres.new_schema()), "PSYCOPG_IMPL": "python"}
    done = run(["serve"], environ)
    assert done.returncode == EXIT_CONFIG, done.stderr
    assert "psycopg works through its python binding" in done.stderr
    assert "install psycopg[binary]" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pooler_that_shares_sessions_is_refused_with_the_setting_to_give(
    data: Path, postgres: Server, environ: dict[str, str]
) -> None:
    pooler = Pooler.start(postgres)
    try:
        address = postgres_environ(
            data, postgres, postgres.new_schema(), ROTA_DATABASE_URL=pooler.url(postgres)
        )
        done = run(["serve"], {**environ, **address})
    finally:
        pooler.destroy()
    assert done.returncode == EXIT_CONFIG, done.stderr
    assert (
        'cannot run reason="database.direct_url: the address leads through a connection pooler' in done.stderr
    )


def test_an_address_in_use_is_said_to_be_so_and_is_worth_a_restart(tmp_path: Path, data: Path) -> None:
    port = free_port()
    hub = Hub.start(tmp_path / "log", {"ROTA_SERVER_DATA": str(data)}, port=port).wait()
    try:
        other = {"ROTA_SERVER_DATA": str(tmp_path / "other"), "ROTA_SERVER_ADDRESS": f"127.0.0.1:{port}"}
        done = run(["serve"], other)
    finally:
        hub.kill()
    assert done.returncode == EXIT_FAILED
    assert f"server.address: 127.0.0.1:{port}: Address already in use: stop what listens there" in done.stderr


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_an_address_that_is_no_name_is_named(data: Path, host: str) -> None:
    done = run(["serve"], {"ROTA_SERVER_DATA": str(data), "ROTA_SERVER_ADDRESS": f"{host}:8420"})
    assert done.returncode == EXIT_FAILED
    assert f"rota: server.address: {host}:8420: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "options", [["migrate"], ["backup", "now"], ["serve"], ["serve", "--role", "worker"]]
)
def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "file").write_text("")
    done = run([*options, "--data", str(tmp_path / "file" / "data")])
    assert done.returncode in {EXIT_FAILED, EXIT_CONFIG}
    assert str(tmp_path / "file") in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("options", [["migrate"], ["backup", "now"], ["serve"]], ids=" ".join)
def test_root_leaves_nothing_that_the_owner_of_the_data_could_not_read(
    options: list[str], data: Path, environ: dict[str, str]
) -> None:
    """Only root can give a directory away, so without root this shows the other side: one's own is taken."""
    data.mkdir(mode=0o700)
    if os.geteuid() != 0:
        assert run(["migrate"], environ).returncode == 0
        return
    os.chown(data, 65534, 65534)
    done = run(options, environ)
    assert done.returncode == EXIT_CONFIG
    assert f"server.data: {data} belongs to nobody, who could not read what root makes there" in done.stderr
    assert list(data.iterdir()) == []
