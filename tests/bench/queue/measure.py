"""One round of one system: enqueue, drain with one and two workers, pick up when idle."""

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from tests.bench.load import TICKS, tree
from tests.bench.queue.install import PLACE, ROOT, Peers
from tests.support.postgres import PASSWORD, Server
from tests.support.process import environment

LATEST = 300  # seconds after which a command has failed
# A cluster as it is run: durable, and with memory enough for everybody.
CLUSTER = ("-c", "max_connections=200", "-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB")


@dataclass(frozen=True)
class System:
    """A queue and how its program is called."""

    name: str
    argv: tuple[str, ...]


@dataclass(frozen=True)
class Size:
    """How much is asked of each system in a round."""

    jobs: int
    single: int
    pickups: int


@dataclass
class Figures:
    """What a round measured. Rates are a second, CPU is µs a job, client and server apart; pickups are ms."""

    single: float = 0.0
    bulk: list[float] = field(default_factory=list)
    drain: dict[int, float] = field(default_factory=dict)  # by the number of workers
    client: dict[int, float] = field(default_factory=dict)
    server: dict[int, float] = field(default_factory=dict)
    pickups: list[float] = field(default_factory=list)


def systems(peers: Peers, ours: str) -> list[System]:
    """Return ours and its peers, each in the configuration in which it is quickest."""
    return [
        System("rota", (ours, "-m", "tests.bench.queue.rota_peer")),
        System("graphile-worker", (str(peers.node), str(PLACE / "graphile_peer.mjs"))),
        System("pgqueuer", (str(peers.python), "-m", "tests.bench.queue.pgqueuer_peer")),
        System("pg-boss", (str(peers.node), str(PLACE / "pgboss_peer.mjs"))),
        System("procrastinate", (str(peers.python), "-m", "tests.bench.queue.procrastinate_peer")),
    ]


class Bench:
    """Measures systems on one private cluster."""

    def __init__(self, server: Server, size: Size) -> None:
        self._server = server
        self._size = size
        address = server.url.replace("rota@", f"rota:{quote(PASSWORD, safe='')}@")
        self._environ = environment(
            {"BENCH_DSN": address, "PYTHONPATH": str(ROOT), "ROTA_SERVER_NAME": "bench"}
        )

    def round(self, system: System) -> Figures:
        """Measure everything once."""
        size, figures = self._size, Figures()
        self._fresh(system)
        figures.single = size.single / self._ask(system, "single", size.single)["seconds"]
        self._fresh(system)
        left = 0
        for workers in (1, 2):
            jobs = size.jobs - left
            figures.bulk.append(jobs / self._ask(system, "bulk", jobs)["seconds"])
            left = self._drain(system, workers, figures)
        self._fresh(system)
        (counted,) = self._work(system, 1, lambda: self._run(system, "trickle", size.pickups))
        figures.pickups = [seconds * 1000 for seconds in counted["pickups"]]
        if len(figures.pickups) != size.pickups:
            raise RuntimeError(f"{system.name}: {len(figures.pickups)} of {size.pickups} jobs picked up")
        return figures

    def _drain(self, system: System, workers: int, figures: Figures) -> int:
        before = self._server_cpu()
        counted = [each for each in self._work(system, workers, lambda: None) if each["count"]]
        used = self._server_cpu() - before
        count = sum(each["count"] for each in counted)
        took = max(each["last"] for each in counted) - min(each["first"] for each in counted)
        figures.drain[workers] = count / took
        figures.client[workers] = sum(each["cpu"] for each in counted) / count * 1e6
        figures.server[workers] = used / count * 1e6
        return int(self._ask(system, "left")["left"])

    def _work(self, system: System, workers: int, meanwhile: Callable[[], object]) -> list[dict[str, Any]]:
        """Start workers, do something once all are ready, and return what each counted."""
        with contextlib.ExitStack() as stack:
            started = [stack.enter_context(self._worker(system)) for _ in range(workers)]
            for worker in started:
                assert worker.stdout is not None
                if worker.stdout.readline() != "READY\n":
                    raise RuntimeError(f"{system.name}: a worker did not start")
            meanwhile()
            return [self._last(worker) for worker in started]

    @contextlib.contextmanager
    def _worker(self, system: System) -> Iterator["subprocess.Popen[str]"]:
        argv = [*system.argv, "worker"]
        process = subprocess.Popen(argv, env=self._environ, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def _last(self, worker: "subprocess.Popen[str]") -> dict[str, Any]:
        # A worker that saw none of two workers' jobs never falls idle: it is told to go once the other has.
        try:
            said, _ = worker.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            worker.kill()
            said, _ = worker.communicate()
        lines = [line for line in said.splitlines() if line.startswith("{")]
        return dict(json.loads(lines[-1])) if lines else {"count": 0}

    def _fresh(self, system: System) -> None:
        self._run(system, "setup")
        with self._server.admin() as admin:
            admin.execute("CHECKPOINT")

    def _ask(self, system: System, command: str, *numbers: int) -> dict[str, Any]:
        lines = self._run(system, command, *numbers).splitlines()
        return dict(json.loads(lines[-1]))

    def _run(self, system: System, command: str, *numbers: int) -> str:
        argv = [*system.argv, command, *map(str, numbers)]
        done = subprocess.run(
            argv, env=self._environ, cwd=ROOT, capture_output=True, text=True, timeout=LATEST, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{system.name} {command}: {done.stderr[-1500:]}")
        return done.stdout

    def _server_cpu(self) -> float:
        """Return the CPU seconds of the whole cluster, of ended sessions too."""
        assert self._server.process is not None
        top, total = self._server.process.pid, 0
        for pid in tree(top):
            with contextlib.suppress(FileNotFoundError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += sum(map(int, fields[11:15] if pid == top else fields[11:13]))
        return total / TICKS


def make_cluster() -> Server:
    """Return a durable server of the bench's own."""
    return Server.create(CLUSTER)


def is_quiet() -> str:
    """Return the load of the machine, for whoever reads the figures."""
    return Path("/proc/loadavg").read_text().split()[0]


def version(server: Server) -> str:
    """Return which PostgreSQL it is."""
    with psycopg.connect(host=str(server.directory), port=server.port, user="postgres") as connection:
        return str(connection.info.server_version // 10000)
