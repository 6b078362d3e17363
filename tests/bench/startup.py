"""How soon the hub is well, how much memory it takes, how quick the command line is."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.load import pss_mib
from tests.bench.report import Line
from tests.support.postgres import free_port
from tests.support.process import Hub, environment

TRIES = 5


def measure() -> list[Line]:
    """Return the median start, the memory when idle, and the median of `rota --help`."""
    starts, memory = [], 0.0
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as scratch:
            began = time.monotonic()
            hub = Hub.start(Path(scratch) / "log", {"ROTA_SERVER_DATA": scratch}, port=free_port())
            try:
                hub.wait()
                starts.append(time.monotonic() - began)
                memory = max(memory, pss_mib(hub.process.pid))
                hub.stop()
            finally:
                hub.kill()
    return [
        Line("start to healthy, median", _median(starts), "≤", 2.0, "s"),
        Line("memory of the idle hub, PSS of its processes", memory, "≤", 120, "MiB"),
        Line(
            "rota --help, median",
            _median([_timed(["rota", "--help"]) for _ in range(9)]) * 1000,
            "≤",
            150,
            "ms",
        ),
    ]


def _timed(command: list[str]) -> float:
    began = time.monotonic()
    program = str(Path(sys.executable).parent / command[0])
    subprocess.run([program, *command[1:]], check=True, stdout=subprocess.DEVNULL, env=environment({}))
    return time.monotonic() - began


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
