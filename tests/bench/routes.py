"""`/health/process` of the hub beside a bare Falcon route, Starlette and FastAPI, on the same server."""

import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.bench.load import Result, plain, round_of
from tests.bench.peers import PATH
from tests.bench.report import Line
from tests.support.postgres import free_port
from tests.support.process import Hub, environment

ROUNDS = 5
SECONDS = 1.5
CONNECTIONS = 8


def measure() -> list[Line]:
    """Return the ratios of requests a second, best of interleaved rounds."""
    with tempfile.TemporaryDirectory() as scratch:
        hub = Hub.start(
            Path(scratch) / "log",
            {"ROTA_SERVER_DATA": scratch, "ROTA_SERVER_LOG_LEVEL": "warning"},
            port=free_port(),
        ).wait()
        assert hub.port is not None
        peers = {name: _peer(name) for name in ("falcon", "starlette", "fastapi")}
        servers = {"rota": (hub.process.pid, hub.port)} | {n: (p.pid, port) for n, (p, port) in peers.items()}
        try:
            best = _interleave(servers)
        finally:
            hub.kill()
            for process, _ in peers.values():
                process.terminate()
                process.wait(timeout=20)
    ours = best["rota"]
    lines = [Line("/health/process to a bare Falcon route", ours.rate / best["falcon"].rate, "≥", 0.8, "x")]
    lines += [
        Line(f"/health/process to {name}", ours.rate / best[name].rate, "≥", 0.8, "x")
        for name in ("starlette", "fastapi")
    ]
    for name, result in best.items():
        print(f"  {name:<10} {result.rate:7.0f} requests/s  {result.cpu:6.0f} µs CPU a request")
    return lines


def _interleave(servers: dict[str, tuple[int, int]]) -> dict[str, Result]:
    best: dict[str, Result] = {}
    for number in range(ROUNDS + 1):
        for name, (pid, port) in servers.items():
            result = round_of(pid, plain(port), PATH, CONNECTIONS, SECONDS if number else 0.3)
            if number and (name not in best or result.rate > best[name].rate):
                best[name] = result
    return best


def _peer(name: str) -> tuple["subprocess.Popen[bytes]", int]:
    port = free_port()
    process = subprocess.Popen(
        [
            *(
                sys.executable,
                "-m",
                "gunicorn",
                "--worker-class",
                "asgi",
                "--workers",
                "1",
                "--asgi-loop",
                "uvloop",
            ),
            *("--http-parser", "python", "--keep-alive", "75", "--no-control-socket", "--log-level", "error"),
            *("--bind", f"127.0.0.1:{port}", f"tests.bench.peers:{name}_app"),
        ],
        env=environment({"PYTHONPATH": str(Path(__file__).parents[2])}),
    )
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{PATH}", timeout=1):
                return process, port
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"{name} does not answer")
