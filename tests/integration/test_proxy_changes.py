"""The proxy changes under load: drains, reloads, targets in and out. No request is lost."""

import itertools
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from plugins.modules import rota_proxy
from tests.kit.modules import Capture, run
from tests.support.clients import asking
from tests.support.haproxy import HUB, Haproxy, Web
from tests.support.wait import wait_for

NAMES = ("w1-1", "w1-2", "w11-1", "w1-1-1")
SWITCHES = 200


@pytest.fixture(scope="module")
def webs() -> Iterator[dict[str, Web]]:
    """Give two servers of the host w1, and one each of the hosts w11 and w1-1."""
    servings = [Web.serving(name) for name in NAMES]
    yield {web.name: web for web in (serving.__enter__() for serving in servings)}
    for serving in servings:
        serving.__exit__(None, None, None)


@pytest.fixture(scope="module")
def proxy(webs: dict[str, Web], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Haproxy]:
    proxy = Haproxy.start(
        tmp_path_factory.mktemp("proxy"),
        {name: web.port for name, web in webs.items()},
        haproxy_idle_timeout=20,
    )
    yield proxy
    proxy.stop()


@pytest.fixture(autouse=True)
def settled(proxy: Haproxy, webs: dict[str, Web]) -> None:
    """Begin with every server up."""
    for web in webs.values():
        web.healthy = True
        web.asked.clear()
        web.paths.clear()
    for name in NAMES:
        proxy.runtime.order(f"set server hub/{name} state ready")
    wait_for(proxy.settled, within=20)


def states(proxy: Haproxy) -> dict[str, str]:
    return {f"{server.backend}/{server.name}": server.status.split()[0] for server in proxy.servers()}


def module(proxy: Haproxy, capture: Capture, host: str, state: str, **more: Any) -> dict[str, Any]:
    arguments = {"host": host, "state": state, "socket": proxy.variables["_haproxy_socket"], "timeout": 15}
    return run(rota_proxy.main, capture, {**arguments, **more})


def test_a_host_is_drained_in_every_backend_and_put_back_and_nobody_notices(
    proxy: Haproxy, webs: dict[str, Web], capsys: Capture
) -> None:
    room = proxy.ask("GET", "/live").headers["set-cookie"].split("=")[1].split(";")[0]
    host = room.rpartition("-")[0]
    with asking(proxy.connect, clients=6, pause=0.01) as tally:
        drained = module(proxy, capsys, host, "drained")
        for web in webs.values():
            web.asked.clear()
        again = module(proxy, capsys, host, "drained")
        # Whoever has its cookie goes elsewhere too.
        elsewhere = proxy.ask("GET", "/live", f"Cookie: room={room}")
        # Which server the proxy's next requests meet is its own choice: wait for the others, all of them.
        others = {name for name in NAMES if name.rpartition("-")[0] != host}
        wait_for(lambda: others <= {name for name, web in webs.items() if web.asked}, within=10)
        asked_while_drained = {name for name, web in webs.items() if web.asked}
        back = module(proxy, capsys, host, "ready")
        settled = module(proxy, capsys, host, "ready")
    assert (tally.failed, tally.resent) == ({}, 0)
    assert tally.total > 100
    ours = sorted(set(NAMES) - others)
    assert drained["actions"] == [f"set server hub/{name} state maint" for name in ours]
    assert (drained["changed"], drained["left"]) == (True, 0)
    assert elsewhere.status == 200
    assert asked_while_drained == others
    assert (again["changed"], back["changed"], settled["changed"]) == (False, True, False)
    assert set(states(proxy).values()) == {"UP"}


def test_a_name_that_begins_alike_is_another_host(proxy: Haproxy, capsys: Capture) -> None:
    module(proxy, capsys, "w1", "drained")
    down = {name for name, status in states(proxy).items() if status == "MAINT"}
    assert down == {"hub/w1-1", "hub/w1-2", "hub_rooms/w1-1", "hub_rooms/w1-2"}


def test_what_is_under_way_is_waited_for_and_what_does_not_end_is_counted(
    proxy: Haproxy, webs: dict[str, Web], capsys: Capture
) -> None:
    entered, gate = threading.Event(), threading.Event()

    def slow(handler: BaseHTTPRequestHandler) -> None:
        entered.set()
        gate.wait(30)
        handler.send_response(204)
        handler.end_headers()

    for web in webs.values():
        web.paths["/slow"] = slow
    with proxy.connect() as connection:
        connection.send(f"GET /slow HTTP/1.1\r\nHost: {HUB}\r\n\r\n".encode())
        assert entered.wait(5)
        (busy,) = {server.host for server in proxy.servers() if server.sessions}
        began = time.monotonic()
        late = module(proxy, capsys, busy, "drained", timeout=3)
        assert time.monotonic() - began >= 3
        assert (late["left"], late["msg"]) == (1, f"1 sessions of {busy} had not ended after 3 s.")
        gate.set()
        assert connection.answer().status == 204
        assert module(proxy, capsys, busy, "drained")["left"] == 0


def test_the_last_servers_that_are_up_stay(proxy: Haproxy, capsys: Capture) -> None:
    for host in ("w11", "w1-1"):
        assert module(proxy, capsys, host, "drained")["changed"]
    before = states(proxy)
    refused = module(proxy, capsys, "w1", "drained")
    assert refused["failed"]
    assert "w1 has the last web processes that are up" in refused["msg"]
    assert states(proxy) == before
    assert proxy.ask("GET", "/").status == 200


def test_what_does_not_become_healthy_is_taken_out_again(
    proxy: Haproxy, webs: dict[str, Web], capsys: Capture
) -> None:
    module(proxy, capsys, "w11", "drained")
    webs["w11-1"].healthy = False
    failed = module(proxy, capsys, "w11", "ready", timeout=8)
    assert failed["failed"]
    assert "hub/w11-1 is DOWN" in failed["msg"]
    assert states(proxy)["hub/w11-1"] == "MAINT"


def test_check_mode_foretells_and_does_nothing(proxy: Haproxy, capsys: Capture) -> None:
    answer = module(proxy, capsys, "w11", "drained", _ansible_check_mode=True)
    assert answer["actions"] == ["set server hub/w11-1 state maint"]
    assert set(states(proxy).values()) == {"UP"}


def test_an_unknown_host_and_an_absent_proxy_are_named(
    proxy: Haproxy, capsys: Capture, tmp_path: Path
) -> None:
    unknown = module(proxy, capsys, "w", "drained")
    assert "no server of the host w; the hosts that it knows: w1, w1-1, w11." in unknown["msg"]
    absent = module(proxy, capsys, "w1", "drained", socket=str(tmp_path / "nothing"))
    assert "systemctl status haproxy" in absent["msg"]


def test_targets_go_in_and_out_two_hundred_times_and_nobody_notices(proxy: Haproxy) -> None:
    states = itertools.cycle(("maint", "ready"))
    with asking(proxy.connect, clients=6) as tally:
        for _ in range(SWITCHES):
            seen = tally.total
            proxy.runtime.order(f"set server hub/w11-1 state {next(states)}")
            wait_for(lambda seen=seen: tally.total >= seen + 10)  # type: ignore[misc]
    assert (tally.failed, tally.resent) == ({}, 0)
    assert tally.total > 10 * SWITCHES


def test_a_reload_loses_nothing(proxy: Haproxy, webs: dict[str, Web]) -> None:
    """A kept connection may be closed between two requests; whoever sends again is answered."""
    ports = {name: web.port for name, web in webs.items()}
    stream = proxy.connect()
    gate = threading.Event()

    def live(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b"data: 0\r\n\r\n")
        gate.wait(60)
        handler.wfile.write(b"data: 1\r\n\r\n")
        handler.close_connection = True

    for web in webs.values():
        web.paths["/live"] = live
    try:
        stream.send(f"GET /live HTTP/1.1\r\nHost: {HUB}\r\n\r\n".encode())
        stream.raw(b"data: 0", 1)
        with asking(proxy.connect, clients=6, pause=0.005) as tally:
            for without in ("w11-1", "w1-1-1", "w1-2"):
                proxy.configure({name: port for name, port in ports.items() if name != without})
                proxy.reload()
                wait_for(lambda without=without: f"hub/{without}" not in states(proxy))  # type: ignore[misc]
                seen = tally.total
                wait_for(lambda seen=seen: tally.total >= seen + 200, within=30)  # type: ignore[misc]
        assert tally.failed == {}
        gate.set()
        stream.raw(b"data: 1", 1)
    finally:
        gate.set()
        stream.close()
        proxy.configure(ports)
        proxy.reload()
        wait_for(lambda: len(states(proxy)) == 2 * len(NAMES))
