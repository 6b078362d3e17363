"""Jobs, real worker processes, a real PostgreSQL, and what can happen to them.

Whatever it is: no job is lost, and no effect happens twice.
"""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest
from tests.support import access
from tests.support.access import bearer
from tests.support.postgres import Server, free_port
from tests.support.process import Hub, environment
from tests.support.process import run as rota
from tests.support.raw import ask
from tests.support.settings import postgres_environ, postgres_settings, sqlite_settings
from tests.support.sql import run
from tests.support.tlog_files import entries_in
from tests.support.wait import wait_for

from rota import wiring
from rota.access.scopes import Scope
from rota.acts.act import read_act
from rota.coordination.queue.job import NewJob
from rota.coordination.queue.queue import TableQueue
from rota.settings import Settings
from rota.store.database import Database

ROOT = Path(__file__).parents[2]


class Workers:
    """The worker processes of one test, and a record of every attempt."""

    def __init__(self, environ: Mapping[str, str], file: Path) -> None:
        self.file = file
        self.processes: list[subprocess.Popen[bytes]] = []
        self._environ = environ

    def start(self, lease: float, *clock: str) -> "subprocess.Popen[bytes]":
        """Start one and wait until it works."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.queue_peer", str(self.file), str(lease), *clock],
            env=environment({**self._environ, "PYTHONPATH": str(ROOT)}),
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"working\n"
        return process

    def attempts(self) -> list[tuple[int, int, int]]:
        """Return every attempt: job, attempt, process."""
        if not self.file.exists():
            return []
        lines = [line.split() for line in self.file.read_text().splitlines()]
        return [(int(job), int(attempt), int(pid)) for job, attempt, pid in lines]

    def end(self) -> None:
        """End them all."""
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=10)
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def environ(tmp_path: Path, postgres: Server) -> Mapping[str, str]:
    """Give the environment of the processes of one hub."""
    return postgres_environ(tmp_path / "data", postgres, postgres.new_schema())


@pytest.fixture
def ours(tmp_path: Path, postgres: Server, environ: Mapping[str, str]) -> Settings:
    """Give the settings of the same hub."""
    return postgres_settings(tmp_path / "data", postgres, environ["ROTA_DATABASE_SCHEMA"])


@pytest.fixture
async def database(ours: Settings) -> AsyncIterator[Database]:
    """Give the database of the same hub."""
    opened = wiring.make_database(ours)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def workers(tmp_path: Path, environ: Mapping[str, str]) -> Iterator[Workers]:
    """Give a maker of worker processes that end with the test."""
    made = Workers(environ, tmp_path / "attempts")
    yield made
    made.end()


async def put(
    settings: Settings, database: Database, count: int, kind: str = "effect", **payload: object
) -> list[int]:
    queue = TableQueue(database, wiring.make_bus(settings))
    new = [NewJob(kind=kind, payload=payload) for _ in range(count)]
    return await database.write(lambda tx: queue.enqueue(tx, *new))


def effects(settings: Settings) -> list[int]:
    return sorted(int(name) for (name,) in run(settings, "SELECT name FROM backups"))


def waiting(settings: Settings) -> list[tuple[object, ...]]:
    return run(settings, "SELECT id, kind, attempts, dead, last_error FROM work_queue")


async def test_workers_that_are_killed_lose_no_job_and_no_effect_happens_twice(
    ours: Settings, database: Database, workers: Workers
) -> None:
    first, second = workers.start(1.0), workers.start(1.0)
    jobs = await put(ours, database, 200, seconds=0.4)
    for victim in (first, second):
        before = len(effects(ours))
        wait_for(lambda: len(effects(ours)) > before + 20, within=30)  # noqa: B023
        victim.kill()
        workers.start(1.0)
    wait_for(lambda: not waiting(ours), within=60)
    assert effects(ours) == jobs
    again = [job for job, attempt, _ in workers.attempts() if attempt > 1]
    print(f"{len(jobs)} jobs, 2 workers killed: {len(again)} attempts were made again")
    assert again


async def test_a_frozen_worker_is_passed_over_and_what_it_does_when_it_thaws_is_refused(
    ours: Settings, database: Database, workers: Workers
) -> None:
    frozen = workers.start(1.0)
    jobs = await put(ours, database, 3, seconds=0.5)
    wait_for(lambda: len(workers.attempts()) == 3)
    frozen.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    workers.start(1.0)
    wait_for(lambda: effects(ours) == jobs, within=30)
    print(f"frozen: its jobs done elsewhere after {time.monotonic() - began:.1f} s")
    frozen.send_signal(signal.SIGCONT)
    (more,) = await put(ours, database, 1)
    wait_for(lambda: not waiting(ours), within=30)
    assert effects(ours) == [*jobs, more]
    frozen.send_signal(signal.SIGTERM)
    assert frozen.wait(timeout=30) == 0


async def test_a_restart_of_the_database_loses_no_job_and_ends_no_worker(tmp_path: Path) -> None:
    server = Server.create()
    settings = postgres_settings(tmp_path / "data", server, "hub")
    database = wiring.make_database(settings)
    await database.open()
    workers = Workers(postgres_environ(tmp_path / "data", server, "hub"), tmp_path / "attempts")
    try:
        both = workers.start(2.0), workers.start(2.0)
        jobs = await put(settings, database, 300, seconds=0.02)
        wait_for(lambda: len(effects(settings)) > 30, within=30)
        await database.close()
        server.stop()
        server.start()
        back = time.monotonic()
        done = len(effects(settings))
        wait_for(lambda: len(effects(settings)) > done, within=15)
        print(f"jobs again {time.monotonic() - back:.1f} s after the server was back (promise 5 s)")
        wait_for(lambda: not waiting(settings), within=60)
        assert effects(settings) == jobs
        assert [process.poll() for process in both] == [None, None]
    finally:
        workers.end()
        server.destroy()


@pytest.mark.parametrize("clock", ["3600", "-3600"])
async def test_a_worker_whose_clock_is_wrong_takes_what_is_due_and_keeps_its_leases(
    ours: Settings, database: Database, workers: Workers, clock: str
) -> None:
    queue = TableQueue(database, wiring.make_bus(ours))
    later = NewJob(kind="effect", payload={}, delay=1800)
    (not_due,) = await database.write(lambda tx: queue.enqueue(tx, later))
    jobs = await put(ours, database, 3, seconds=4.0)
    workers.start(2.0, clock)
    workers.start(2.0)
    wait_for(lambda: effects(ours) == jobs, within=30)
    assert sorted(job for job, _, _ in workers.attempts()) == jobs
    assert [row[0] for row in waiting(ours)] == [not_due]


async def test_a_job_that_kills_its_worker_is_dead_after_eight_attempts_and_takes_no_other_down(
    ours: Settings, database: Database, workers: Workers
) -> None:
    (poison,) = await put(ours, database, 1, kind="poison")
    jobs = await put(ours, database, 10, seconds=0.05)
    for _ in range(8):
        worker = workers.start(0.4)
        assert worker.wait(timeout=30) == -signal.SIGKILL
    workers.start(0.4)
    wait_for(lambda: [(row[0], row[3]) for row in waiting(ours)] == [(poison, True)], within=30)
    (row,) = waiting(ours)
    assert [attempt for job, attempt, _ in workers.attempts() if job == poison] == list(range(1, 9))
    assert (row[2], row[4]) == (8, "its lease ran out at attempt 8: its worker ended, or lost the database")
    assert effects(ours) == jobs


async def test_a_worker_that_is_told_to_stop_finishes_what_it_began(
    ours: Settings, database: Database, workers: Workers
) -> None:
    worker = workers.start(60.0)
    jobs = await put(ours, database, 20, seconds=0.5)
    wait_for(lambda: len(workers.attempts()) == 16)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=30) == 0
    begun = sorted(job for job, _, _ in workers.attempts())
    assert effects(ours) == begun
    assert sorted((row[0], row[2]) for row in waiting(ours)) == [(job, 0) for job in jobs if job not in begun]


async def test_a_job_reaches_a_worker_of_another_process_at_once(
    tmp_path: Path, ours: Settings, database: Database, environ: Mapping[str, str], hubs: list[Hub]
) -> None:
    token = {"ROTA_SERVER_METRICS_TOKEN": "t", "ROTA_SERVER_ROLES": "worker"}
    hub = Hub.start(tmp_path / "log", {**environ, **token}, port=free_port()).wait()
    hubs.append(hub)
    assert hub.port is not None
    bus = wiring.make_bus(ours)
    bus.start()
    queue = TableQueue(database, bus)
    wait_for(lambda: metric(hub, "rota_bus_connected ") == 1)
    slowest = 0.0
    for count in range(1, 6):
        began = time.monotonic()
        await database.write(lambda tx: queue.enqueue(tx, NewJob(kind="queue.probe", payload={})))
        async with asyncio.timeout(5):
            while True:
                if not waiting(ours):
                    break
                await asyncio.sleep(0.005)
        slowest = max(slowest, time.monotonic() - began)
        assert metric(hub, 'rota_queue_attempts_total{kind="queue.probe",outcome="done"} ') == count
    print(f"enqueued and gone after {slowest:.3f} s at most")
    assert slowest < 1.0
    await bus.close()
    assert hub.stop() == 0


def metric(hub: Hub, name: str) -> float:
    assert hub.port is not None
    text = ask(hub.port, "GET", "/metrics", "Authorization: Bearer t").text
    return next((float(line.removeprefix(name)) for line in text.splitlines() if line.startswith(name)), -1.0)


def test_one_process_on_sqlite_shows_what_waits_and_what_died(tmp_path: Path, hubs: list[Hub]) -> None:
    settings = sqlite_settings(tmp_path / "data")
    environ = {"ROTA_SERVER_DATA": str(tmp_path / "data"), "ROTA_SERVER_METRICS_TOKEN": "t"}
    assert rota(["migrate"], environ).returncode == 0
    run(
        settings,
        "INSERT INTO work_queue (id, kind, payload, keeps_key, program_schema, run_after, enqueued_at) "
        "VALUES (1, 'queue.probe', '{}', 0, 1, 0, 0), (2, 'of.yesterday', '{\"a\":1}', 0, 1, 0, 0), "
        "(3, 'queue.probe', '{}', 0, 99, 0, 0)",
    )
    hub = Hub.start(tmp_path / "log", environ, port=free_port()).wait()
    hubs.append(hub)
    wait_for(
        lambda: (
            [row[:4] for row in waiting(settings)] == [(2, "of.yesterday", 0, 1), (3, "queue.probe", 0, 0)]
        )
    )
    assert metric(hub, 'rota_queue_jobs{kind="of.yesterday",state="dead"} ') == 1
    assert metric(hub, 'rota_queue_jobs{kind="queue.probe",state="due"} ') == 1
    assert hub.port is not None
    page = ask(hub.port, "GET", "/", bearer(settings, Scope.HUB_READ)).text
    row = next(line for line in page.splitlines() if ">of.yesterday</td>" in line)
    assert re.findall(r">(\d+)</td>", row) == ["0", "0", "0", "1"], (
        "none due, none later, none runs, one is dead"
    )
    assert re.search(r"<td>queue.worker</td>\s*<td[^>]*>running</td>", page)


class TestCommands:
    """`rota queue` and the page, at a process that takes no jobs itself."""

    @pytest.fixture(scope="class")
    @staticmethod
    def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, Mapping[str, str], Path]]:
        """Give a web process, the environment of a user of it, and its data."""
        data = tmp_path_factory.mktemp("hub") / "data"
        environ = {"ROTA_SERVER_DATA": str(data), "ROTA_SERVER_ROLES": "web"}
        log = tmp_path_factory.mktemp("log") / "log"
        hub = Hub.start(log, environ, port=free_port()).wait()
        token = access.token(environ, Scope.QUEUE_READ, Scope.QUEUE_WRITE)
        yield hub, {"ROTA_URL": f"http://127.0.0.1:{hub.port}", "ROTA_TOKEN": token}, data
        hub.kill()

    @pytest.fixture
    def environ(self, place: tuple[Hub, Mapping[str, str], Path]) -> Mapping[str, str]:
        """Give the environment of a user of a hub with a job in each state."""
        _, environ, data = place
        run(sqlite_settings(data), "DELETE FROM work_queue")
        run(
            sqlite_settings(data),
            "INSERT INTO work_queue (id, kind, payload, keeps_key, program_schema, run_after, enqueued_at, "
            "dead, attempts, last_error, claimed_by, claimed_until) VALUES "
            "(1, 'mail', '{\"to\":\"a\"}', 0, 1, 1, 0, 1, 8, 'SMTPError: no route (a.py:3 b)', NULL, NULL), "
            "(2, 'mail', '{}', 0, 1, 2, 0, 0, 0, NULL, NULL, NULL), "
            "(3, 'mail', '{}', 0, 1, 3, 0, 0, 1, NULL, 'w', 9000000000000000), "
            "(4, 'mirror', '{}', 0, 1, 4, 0, 1, 8, 'bad ' || char(27) || '[2J', NULL, NULL)",
        )
        return environ

    def said(self, environ: Mapping[str, str], *argv: str, code: int = 0) -> str:
        ended = rota(["queue", *argv], environ)
        assert ended.returncode == code, ended
        return ended.stderr if code else ended.stdout

    def listed(self, environ: Mapping[str, str], *argv: str) -> list[tuple[int, str]]:
        found = json.loads(self.said(environ, "list", "--json", *argv))
        return [(job["id"], job["state"]) for job in found]

    def test_list_shows_jobs_and_nothing_that_colours_a_terminal(self, environ: Mapping[str, str]) -> None:
        lines = self.said(environ, "list").splitlines()
        assert lines[0].split() == [
            "1",
            "mail",
            "dead",
            "8",
            "1970-01-01T00:00:00Z",
            "SMTPError:",
            "no",
            "route",
        ]
        assert "\x1b" not in "".join(lines)
        assert self.listed(environ) == [(1, "dead"), (2, "due"), (3, "running"), (4, "dead")]
        assert self.listed(environ, "--state", "dead", "--kind", "mail") == [(1, "dead")]
        assert self.said(environ, "list", "--kind", "none") == "No such job.\n"

    def test_show_tells_all_of_one_job(self, environ: Mapping[str, str]) -> None:
        said = self.said(environ, "show", "1")
        assert "error           SMTPError: no route (a.py:3 b)\n" in said
        assert 'payload         {"to":"a"}\n' in said
        assert "is not on the queue" in self.said(environ, "show", "9", code=1)

    def test_retry_and_drop_change_what_does_not_run_and_say_what_they_left(
        self, environ: Mapping[str, str]
    ) -> None:
        assert self.said(environ, "retry", "1") == "1  due now\n"
        assert self.said(environ, "drop", "--dead", "mirror") == "4  dropped\n"
        assert "left alone: 3, 9" in self.said(environ, "drop", "2", "3", "9", code=1)
        assert self.listed(environ) == [(3, "running"), (1, "due")]
        assert self.said(environ, "retry", "--dead", "mail") == "No job of kind mail is dead.\n"
        assert "Name jobs" in self.said(environ, "drop", code=2)

    def test_each_change_is_an_act(
        self, place: tuple[Hub, Mapping[str, str], Path], environ: Mapping[str, str]
    ) -> None:
        _, _, data = place
        before = len(entries_in(data / "tlog"))
        self.said(environ, "retry", "1", "3", code=1)
        self.said(environ, "drop", "--dead", "mirror")
        self.said(environ, "drop", "--dead", "mirror")
        acts = [read_act(entry) for entry in entries_in(data / "tlog")[before:]]
        assert [(act.kind, act.subject, act.details) for act in acts] == [
            ("queue.retry", "jobs", {"count": 2, "jobs": [1, 3]}),
            ("queue.drop", "kind:mirror", {"count": 1, "jobs": [4]}),
        ]
        assert acts[0].actor.startswith("token:account-")

    def test_the_page_shows_jobs_and_changes_them_by_forms(
        self, place: tuple[Hub, Mapping[str, str], Path], environ: Mapping[str, str]
    ) -> None:
        hub, _, data = place
        port, settings = hub.port or 0, sqlite_settings(data)
        assert environ["ROTA_TOKEN"]
        writer = access.session(settings, Scope.QUEUE_READ, Scope.QUEUE_WRITE)
        page = ask(port, "GET", "/queue?kind=mail&state=dead", writer).text
        assert "SMTPError: no route (a.py:3 b)" in page
        assert '<option value="dead" selected>dead</option>' in page
        assert page.count('name="jobs" value="1"') == 2
        assert 'name="jobs" value="2"' not in page
        answer = access.send_form(port, "/api/queue/retry", {"jobs": "1"}, writer)
        assert (answer.status, answer.headers["location"]) == (303, "/queue")
        assert access.send_form(port, "/api/queue/drop", {"dead": "mirror"}, writer).status == 303
        assert run(settings, "SELECT id, dead FROM work_queue ORDER BY id") == [(1, 0), (2, 0), (3, 0)]
        reader = access.session(settings, Scope.QUEUE_READ)
        assert "<button>Retry" not in ask(port, "GET", "/queue", reader).text
        assert access.send_form(port, "/api/queue/drop", {"jobs": "1"}, reader).status == 403
        assert access.send_form(port, "/api/queue/drop", {}, writer).status == 400
        assert ask(port, "GET", "/api/queue?state=odd", writer).status == 400
        assert ask(port, "GET", "/api/queue?kind=%00", writer).status == 400
