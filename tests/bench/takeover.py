"""How long a singleton is led by nobody, after each way in which its leader can end."""

import os
import signal
import tempfile
import time
from collections.abc import Callable
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
        with tempfile.TemporaryDirectory() as scratch:
            environ = postgres_environ(Path(scratch) / "data", server, server.new_schema())
            a = Hub.start(Path(scratch) / "a", environ, port=free_port()).wait()
            _until(a.leading)
            b = Hub.start(Path(scratch) / "b", environ, port=free_port()).wait()
            times.append(_takeover(a, b, strike))
            a.kill()
            b.kill()
    return times


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
