"""How long a singleton is led by nobody, after each way in which its leader can end."""

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.bench.report import Line
from tests.support.postgres import Server, free_port
from tests.support.process import Hub
from tests.support.settings import postgres_environ

TRIES = 5


def measure() -> list[Line]:
    """Return the slowest takeover of several for each way."""
    ways: tuple[tuple[str, Callable[[Hub], None], float], ...] = (
        ("graceful stop", lambda hub: hub.process.send_signal(signal.SIGTERM), 1.0),
        ("kill -9", lambda hub: hub.kill(), 3.0),
        ("frozen", lambda hub: os.kill(hub.pids()[-1], signal.SIGSTOP), 11.0),
    )
    server = Server.create()
    try:
        return [
            Line(f"takeover, {name}, slowest of {TRIES}", max(_takeovers(server, strike)), "≤", promise, "s")
            for name, strike, promise in ways
        ]
    finally:
        server.destroy()


def _takeovers(server: Server, strike: Callable[[Hub], None]) -> list[float]:
    times = []
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as hubs:
            environ = postgres_environ(Path(scratch) / "data", server, server.new_schema())
            a = _start(hubs, Path(scratch) / "a", environ)
            _until(a.leading)
            b = _start(hubs, Path(scratch) / "b", environ)
            times.append(_takeover(a, b, strike))
    return times


def _start(hubs: contextlib.ExitStack, log: Path, environ: Mapping[str, str]) -> Hub:
    hub = Hub.start(log, environ, port=free_port())
    hubs.callback(hub.kill)
    return hub.wait()


def _takeover(a: Hub, b: Hub, strike: Callable[[Hub], None]) -> float:
    led = a.leading()
    began = time.monotonic()
    strike(a)
    _until(lambda: b.leading() == led)
    return time.monotonic() - began


def _until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < end, "nobody leads"
        time.sleep(0.01)
