"""`make bench-artifacts`: pushes and fetches of a new artifact beside the raw rate of loopback.

The raw rate is that of one process sending the same file to another over TCP, which throws
it away. Files lie in memory, so that the disk is not what is measured.
"""

import asyncio
import json
import multiprocessing
import os
import resource
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
from tests.bench.report import Line
from tests.support import access
from tests.support.postgres import free_port
from tests.support.process import Hub
from tests.support.server import Simulated

from rota.access.scopes import Scope
from rota.artifacts import transfer
from rota.artifacts.fetching import fetch
from rota.artifacts.measuring import Measured, measure
from rota.artifacts.pushing import push
from rota.artifacts.store import ArtifactStore
from rota.wire.request import EMPTY, HEADER, RequestStatement, header

MIB = 1 << 20
SIZE, CHANGED = 400 * MIB, 100 * MIB
PART = 4 * MIB
ROUNDS = 5


class Bench:
    """One hub with its files in memory, somebody who pushes, and a server that fetches."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.environ = {"ROTA_SERVER_DATA": str(place / "data")}
        self.hub = Hub.start(place / "log", self.environ, port=free_port()).wait()
        self.url = f"http://127.0.0.1:{self.hub.port}"
        self.token = access.token(self.environ, Scope.APPS_WRITE)
        self.server = asyncio.run(self._enrolled())

    async def _enrolled(self) -> Simulated:
        assert self.hub.port is not None
        bearer = await asyncio.to_thread(access.bearer, self.environ, Scope.ADMIN)
        wanted = {"name": "s1", "address": "10.79.0.9"}
        invited = await asyncio.to_thread(
            access.send_json, self.hub.port, "POST", "/api/servers", wanted, bearer
        )
        server = Simulated("s1", "10.79.0.9")
        async with aiohttp.ClientSession() as client:
            await server.enrol(client, {**json.loads(invited.body), "url": self.url})
        return server

    def file(self, size: int) -> tuple[Path, Measured]:
        """Make a new file."""
        path = self.place / "source"
        with path.open("wb") as file:
            for _ in range(size // PART):
                file.write(os.urandom(PART))
        return path, measure(path)

    def push(self, path: Path, measured: Measured) -> int:
        """Push a file; return the bytes that travelled."""
        headers = {"Authorization": f"Bearer {self.token}"}
        with transfer.Line(self.url, lambda *_: headers) as line:
            return push(line, "shop", path, measured, lambda *_: None)

    def fetch(self, measured: Measured) -> Path:
        """Fetch an artifact into an empty store."""
        there = self.place / "there"
        shutil.rmtree(there, ignore_errors=True)
        return fetch(ArtifactStore(there), self.url, self._sign, measured.hash, measured.size)

    def peak(self) -> int:
        """Return the most memory that the serving process ever used, in KiB."""
        lines = Path(f"/proc/{self.hub.pids()[-1]}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    def _sign(self, method: str, target: str) -> dict[str, str]:
        statement = RequestStatement(
            audience=self.server.hub,
            sender=self.server.name,
            method=method,  # type: ignore[arg-type]
            target=target,
            body=EMPTY,
            issued_at=1,
        )
        return {HEADER: header(statement, self.server.key)}


def measure_all() -> Iterator[Line]:
    """Yield each figure."""
    with _bench() as bench:
        raw, pushed, fetched = [], [], []
        for _ in range(ROUNDS):  # in turns, so that all have the same neighbours
            path, measured = bench.file(SIZE)
            raw.append(SIZE / _raw(path))
            pushed.append(SIZE / _timed(lambda path=path, measured=measured: bench.push(path, measured)))  # type: ignore[misc]
            fetched.append(SIZE / _timed(lambda measured=measured: bench.fetch(measured)))  # type: ignore[misc]
            shutil.rmtree(bench.place / "data" / "artifacts", ignore_errors=True)
        print(f"raw {max(raw) / MIB:.0f}, push {max(pushed) / MIB:.0f}, fetch {max(fetched) / MIB:.0f} MiB/s")
        yield Line("push of a new artifact, to the raw rate", max(pushed) / max(raw), "≥", 0.5, "")
        yield Line("fetch of a new artifact, to the raw rate", max(fetched) / max(raw), "≥", 0.5, "")
        path, measured = bench.file(CHANGED)
        bench.push(path, measured)
        before = bench.peak()
        data = path.read_bytes()
        path.write_bytes(data[: CHANGED // 2] + b"one changed line\n" + data[CHANGED // 2 :])
        del data
        yield Line("a changed line of 100 MB moves", bench.push(path, measure(path)) / MIB, "≤", 1, "MiB")
        path, measured = bench.file(2 * SIZE)
        bench.push(path, measured)
        bench.fetch(measured)
        grown = (bench.peak() - before) / 1024
        yield Line("memory of the hub grows, for twice the size, by", grown, "≤", 16, "MiB")
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"the hub's peak is {bench.peak() >> 10} MiB, this program's {own >> 10} MiB")


@contextmanager
def _bench() -> Iterator[Bench]:
    memory = Path("/dev/shm")  # noqa: S108 - a directory of our own below it
    place = Path(tempfile.mkdtemp(prefix="rota-bench-", dir=memory if memory.is_dir() else None))
    bench = Bench(place)
    try:
        yield bench
    finally:
        bench.hub.kill()
        shutil.rmtree(place)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _raw(path: Path) -> float:
    """Return the seconds for a file from one process to another."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = multiprocessing.get_context("fork").Process(target=_send, args=(listener, path))
        sender.start()
        with socket.create_connection(listener.getsockname()) as connection:
            began, buffer = time.perf_counter(), bytearray(MIB)
            while connection.recv_into(buffer):
                pass
            took = time.perf_counter() - began
        sender.join()
    return took


def _send(listener: socket.socket, path: Path) -> None:
    connection, _ = listener.accept()
    with connection, path.open("rb", buffering=0) as file:
        while part := file.read(MIB):
            connection.sendall(part)


def main() -> int:
    """Return 1 when a promise is broken."""
    lines = []
    for line in measure_all():
        print(f"  {line}", flush=True)
        lines.append(line)
    return 0 if all(line.kept for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
