"""A process under a supervisor: readiness, watchdog, passed sockets, and a stop that loses nothing."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from tests.support import activate
from tests.support.postgres import free_port
from tests.support.process import ROTA, SINGLETONS, Hub, environment, run
from tests.support.raw import Connection, ask
from tests.support.settings import CHECKPOINT_KEY
from tests.support.supervisor import Supervisor
from tests.support.wait import wait_for

from rota.errors import EXIT_CONFIG

QUICK = 5.0  # seconds that a stop with nothing to wait for may take


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"ROTA_SERVER_DATA": str(tmp_path / "data")}


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path / "notify") as listening:
        yield listening


@pytest.fixture
def hub(tmp_path: Path, environ: dict[str, str]) -> Iterator[Hub]:
    """Give a process that is served and leads."""
    process = Hub.start(tmp_path / "log", environ, port=free_port()).wait()
    wait_for(lambda: len(process.leading()) == SINGLETONS)
    yield process
    process.kill()


def supervised(tmp_path: Path, supervisor: Supervisor, environ: Mapping[str, str], *options: str) -> Hub:
    told = {"NOTIFY_SOCKET": str(supervisor.path), "WATCHDOG_USEC": "1000000", **environ}
    port = None if "worker" in options else free_port()
    return Hub.start(tmp_path / "log", told, *options, port=port)


class TestReadiness:
    @pytest.mark.parametrize("options", [[], ["--role", "worker"]], ids=["serving", "serving nothing"])
    def test_ready_then_alive_then_stopping(
        self, tmp_path: Path, supervisor: Supervisor, environ: dict[str, str], options: list[str]
    ) -> None:
        hub = supervised(tmp_path, supervisor, environ, *options)
        try:
            *before, ready = supervisor.until("READY=1")
            assert all(told.states == ["WATCHDOG=1"] for told in before)
            if hub.port:
                assert ask(hub.port, "GET", "/health/process").status == 200
                assert "first_answer=200" in hub.output()
            assert ready.pid == hub.pids()[-1]
            for _ in range(3):
                assert supervisor.next(within=2.0).states == ["WATCHDOG=1"]
            hub.process.send_signal(signal.SIGTERM)
            *before, _ = supervisor.until("STOPPING=1", within=3.0)
            assert all(told.states == ["WATCHDOG=1"] for told in before)
            assert hub.process.wait(timeout=QUICK) == 0
        finally:
            hub.kill()
        assert all(told.states == ["WATCHDOG=1"] for told in supervisor.rest())

    def test_a_process_without_its_database_is_ready_all_the_same(
        self, tmp_path: Path, supervisor: Supervisor
    ) -> None:
        """The unit must come up, or its pages could not say what is wrong."""
        environ = {
            "ROTA_SERVER_DATA": str(tmp_path / "data"),
            "ROTA_DATABASE_URL": f"postgresql://rota@127.0.0.1:{free_port()}/rota",
            "ROTA_DATABASE_SCHEMA": "rota",
            "ROTA_TLOG_CHECKPOINT_KEY": CHECKPOINT_KEY,
        }
        hub = supervised(tmp_path, supervisor, environ)
        try:
            supervisor.until("READY=1")
            assert hub.health()["status"] == "failing"
            assert hub.stop(within=QUICK) == 0
        finally:
            hub.kill()

    def test_a_process_that_cannot_run_never_says_that_it_is_ready(
        self, tmp_path: Path, supervisor: Supervisor, environ: dict[str, str]
    ) -> None:
        assert run(["migrate"], environ).returncode == 0
        with closing(sqlite3.connect(tmp_path / "data" / "rota.db")) as database:
            database.execute("UPDATE schema_migrations SET tolerates = 999")
            database.commit()
        hub = supervised(tmp_path, supervisor, environ)
        try:
            assert hub.process.wait(timeout=20) == EXIT_CONFIG
        finally:
            hub.kill()
        assert not [told for told in supervisor.rest() if "READY=1" in told.states]

    def test_a_supervisor_that_went_away_is_no_error(self, tmp_path: Path, environ: dict[str, str]) -> None:
        hub = Hub.start(
            tmp_path / "log", {**environ, "NOTIFY_SOCKET": str(tmp_path / "nobody")}, port=free_port()
        )
        try:
            hub.wait()
            assert hub.stop(within=QUICK) == 0
        finally:
            hub.kill()
        assert "Traceback" not in hub.output()


class TestPassedSocket:
    @pytest.fixture
    def listener(self) -> Iterator[socket.socket]:
        """Give a listening socket, which stays with us while processes come and go."""
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
            yield listening

    def start(
        self, tmp_path: Path, listener: socket.socket, environ: Mapping[str, str], *options: str
    ) -> Hub:
        descriptor = listener.fileno()
        with (tmp_path / "log").open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, activate.__file__, str(descriptor), *ROTA, "serve", *options],
                env=environment(environ),
                pass_fds=[descriptor],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        return Hub(process, tmp_path / "log", listener.getsockname()[1])

    def test_it_wins_over_the_address_and_no_early_request_is_refused(
        self, tmp_path: Path, listener: socket.socket, environ: dict[str, str]
    ) -> None:
        port, other = listener.getsockname()[1], free_port()
        with Connection(port) as early:
            early.send(b"GET /health/process HTTP/1.1\r\nHost: h\r\n\r\n")
            hub = self.start(tmp_path, listener, {**environ, "ROTA_SERVER_ADDRESS": f"127.0.0.1:{other}"})
            try:
                hub.wait()
                assert early.answer().status == 200
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", other))
            finally:
                hub.kill()

    def test_a_worker_alone_serves_its_two_routes_there(
        self, tmp_path: Path, listener: socket.socket, environ: dict[str, str]
    ) -> None:
        hub = self.start(tmp_path, listener, environ, "--role", "worker")
        try:
            hub.wait()
            assert ask(hub.port or 0, "GET", "/version").status == 404
        finally:
            hub.kill()

    def test_what_comes_between_two_processes_waits_for_the_second(
        self, tmp_path: Path, listener: socket.socket, environ: dict[str, str]
    ) -> None:
        first = self.start(tmp_path, listener, environ).wait()
        assert first.stop() == 0
        with Connection(listener.getsockname()[1]) as between:
            between.send(b"GET /version HTTP/1.1\r\nHost: h\r\n\r\n")
            second = self.start(tmp_path, listener, environ)
            try:
                assert between.answer().status == 200
            finally:
                second.kill()


class TestStop:
    def test_a_request_under_way_is_finished_and_its_connection_closed(self, hub: Hub) -> None:
        assert hub.port
        with Connection(hub.port) as slow:
            slow.send(b"POST /version HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n")
            with Connection(hub.port) as other:
                assert other.ask("GET", "/version").status == 200  # so the slow one has been read too
            hub.process.send_signal(signal.SIGTERM)
            wait_for(lambda: "resigned" in hub.output())
            wait_for(lambda: refused(hub.port or 0))
            assert not slow.closed(within=3.0), "cut while its request was under way"
            slow.send(b"body")
            answer = slow.answer()
            assert (answer.status, answer.headers["connection"]) == (405, "close")
            assert slow.closed()
        assert hub.process.wait(timeout=QUICK) == 0

    def test_an_idle_connection_may_still_ask_once_and_is_told_to_go(self, hub: Hub) -> None:
        assert hub.port
        with Connection(hub.port) as idle, Connection(hub.port) as asking, Connection(hub.port) as slow:
            for connection in (idle, asking):
                assert connection.ask("GET", "/version").headers.get("connection") != "close"
            slow.send(b"POST /version HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n")
            hub.process.send_signal(signal.SIGTERM)
            wait_for(lambda: "resigned" in hub.output())
            answer = asking.ask("GET", "/health/process")
            assert (answer.status, answer.headers["connection"]) == (503, "close")
            assert idle.closed(within=4.0)
            slow.send(b"body")
            assert slow.answer().status == 405
        assert hub.process.wait(timeout=QUICK) == 0

    def test_idle_connections_do_not_hold_it_up(self, hub: Hub) -> None:
        assert hub.port
        with Connection(hub.port) as idle, Connection(hub.port) as silent:
            assert idle.ask("GET", "/version").status == 200
            began = time.monotonic()
            assert hub.stop() == 0
            assert time.monotonic() - began < QUICK
            assert idle.closed()
            assert silent.closed()
        said = hub.output()
        assert said.index("resigned tasks=") < said.index("stopped\n"), "locks are given back first"
        assert "Traceback" not in said

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["Ctrl-C", "the terminal closes"])
    def test_what_a_terminal_tells_the_whole_group_stops_it_as_gently(
        self, hub: Hub, number: signal.Signals
    ) -> None:
        began = time.monotonic()
        os.killpg(hub.process.pid, number)
        assert hub.process.wait(timeout=15) == 0
        assert time.monotonic() - began < QUICK
        assert "Traceback" not in hub.output()
        assert "resigned tasks=" in hub.output()

    def test_a_second_signal_changes_nothing(self, hub: Hub) -> None:
        for _ in range(3):
            os.killpg(hub.process.pid, signal.SIGTERM)
        assert hub.process.wait(timeout=15) == 0
        assert hub.output().count("resigned tasks=") == 1

    def test_one_that_comes_while_the_server_process_begins_is_heard(
        self, tmp_path: Path, environ: dict[str, str]
    ) -> None:
        cluster = {
            "ROTA_DATABASE_URL": f"postgresql://rota@127.0.0.1:{free_port()}/rota",
            "ROTA_DATABASE_SCHEMA": "rota",
            "ROTA_TLOG_CHECKPOINT_KEY": CHECKPOINT_KEY,
        }
        hub = Hub.start(tmp_path / "log", {**environ, **cluster}, port=free_port())
        try:
            wait_for(lambda: len(hub.pids()) == 2)
            assert hub.stop(within=QUICK) == 0
        finally:
            hub.kill()

    def test_nobody_reads_what_it_writes_any_more(self, tmp_path: Path, environ: dict[str, str]) -> None:
        """As in `rota serve 2>&1 | tee log`, when tee has ended."""
        port = free_port()
        hub = Hub.start(tmp_path / "log", environ, port=port)
        hub.kill()
        read, write = os.pipe()
        given = environment({**environ, "ROTA_SERVER_ADDRESS": f"127.0.0.1:{port}"})
        hub.process = subprocess.Popen([*ROTA, "serve"], env=given, stderr=write, start_new_session=True)
        os.close(write)
        os.close(read)
        try:
            hub.wait()
            wait_for(lambda: len(hub.leading()) == SINGLETONS)
            assert hub.stop(within=QUICK) == 0
        finally:
            hub.kill()

    def test_a_killed_server_process_is_replaced_and_no_signal_makes_it_two(self, hub: Hub) -> None:
        """On SQLite a second one would write beside the first."""
        parent, child = hub.pids()
        for number in (signal.SIGTTIN, signal.SIGUSR2, signal.SIGTTOU, signal.SIGWINCH):
            hub.process.send_signal(number)
        os.kill(child, signal.SIGKILL)  # what comes of it comes after the others
        wait_for(lambda: hub.pids()[1:] not in ([], [child]))
        hub.wait()
        wait_for(lambda: len(hub.leading()) == SINGLETONS)
        assert hub.pids()[0] == parent
        assert len(hub.pids()) == 2

    def test_nothing_outlives_a_parent_that_was_killed(self, hub: Hub) -> None:
        _, child = hub.pids()
        hub.process.kill()
        hub.process.wait()
        wait_for(lambda: not Path(f"/proc/{child}").exists())


def refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except ConnectionRefusedError:
        return True
    return False
