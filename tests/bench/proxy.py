"""The hub behind HAProxy and without it, and targets that go in and out under load."""

import contextlib
import itertools
import socket
import tempfile
import time
from pathlib import Path

from tests.bench.load import Result, cpu_seconds, plain, round_of
from tests.bench.report import Line
from tests.support.clients import asking
from tests.support.haproxy import Haproxy
from tests.support.postgres import free_port
from tests.support.process import Hub
from tests.support.wait import wait_for

ROUNDS = 5
SECONDS = 1.5
CONNECTIONS = 8
PATH = "/health/process"
SWITCHES = 200


def measure() -> list[Line]:
    """Return what the proxy costs a request, as ratios to the hub alone, and what switches lose."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as started:
        hubs = [_hub(started, Path(scratch) / name) for name in ("w1", "w2")]
        web = {f"{name}-1": hub.port for name, hub in zip(("w1", "w2"), hubs, strict=True) if hub.port}
        proxy = Haproxy.start(Path(scratch), {"w1-1": web["w1-1"]})
        started.callback(proxy.stop)
        lines = _cost(hubs[0], proxy)
        proxy.configure(web)
        proxy.reload()
        wait_for(lambda: len(proxy.servers()) == 2 * len(web) and proxy.settled(), within=30)
        return [*lines, *_switches(proxy)]


def _hub(started: contextlib.ExitStack, directory: Path) -> Hub:
    directory.mkdir()
    environ = {"ROTA_SERVER_DATA": str(directory / "data"), "ROTA_SERVER_LOG_LEVEL": "warning"}
    hub = Hub.start(directory / "log", environ, port=free_port())
    started.callback(hub.kill)
    return hub.wait()


def _cost(hub: Hub, proxy: Haproxy) -> list[Line]:
    """Measure in turns, directly and through the proxy with TLS; the round with the least CPU counts."""
    assert hub.port is not None
    ways = {"direct": plain(hub.port), "proxied": lambda: _tls(proxy)}
    best: dict[str, Result] = {}
    added = float("inf")
    for number, (name, connect) in itertools.product(range(ROUNDS + 1), ways.items()):
        before = cpu_seconds(proxy.process.pid)
        result = round_of(hub.process.pid, connect, PATH, CONNECTIONS, SECONDS if number else 0.3)
        spent = (cpu_seconds(proxy.process.pid) - before) / result.requests * 1e6
        if number and (name not in best or result.cpu < best[name].cpu):
            best[name] = result
        if number and name == "proxied":
            added = min(added, spent)
    for name, result in best.items():
        print(f"  {name:<10} {result.rate:7.0f} requests/s  {result.cpu:6.0f} µs CPU of the hub a request")
    print(f"  the proxy's own, with TLS: {added:.0f} µs CPU a request")
    return [
        Line(
            "CPU of the hub a request, behind the proxy",
            best["proxied"].cpu / best["direct"].cpu,
            "≤",
            1.25,
            "x",
        ),
        Line("CPU of the proxy a request, to the hub's own", added / best["direct"].cpu, "≤", 1.0, "x"),
        Line(
            "requests/s behind the proxy, to direct",
            best["proxied"].rate / best["direct"].rate,
            "≥",
            0.5,
            "x",
        ),
    ]


def _tls(proxy: Haproxy) -> socket.socket:
    return proxy.connect().tls


def _switches(proxy: Haproxy) -> list[Line]:
    """Take one of two hubs out and put it back under load; count what failed or had to be sent again."""
    states = itertools.cycle(("maint", "ready"))
    began = time.monotonic()
    # The hub answers a POST here as well: that it takes none.
    with asking(proxy.connect, clients=CONNECTIONS, path=PATH, good=("200", "405")) as tally:
        for _ in range(SWITCHES):
            seen = tally.total
            proxy.runtime.order(f"set server hub/w2-1 state {next(states)}")
            wait_for(lambda seen=seen: tally.total >= seen + 2 * CONNECTIONS)  # type: ignore[misc]
    print(f"  {tally.total} requests in {SWITCHES} switches, {time.monotonic() - began:.0f} s")
    lost = tally.failed.total() + tally.resent
    return [Line(f"requests lost in {SWITCHES} switches of a target", lost, "≤", 0, "")]
