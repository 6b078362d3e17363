"""rota_proxy's rules: which orders bring a host in and out. With a real proxy: tests/integration."""

import pytest
from plugins.modules import rota_proxy as proxy

FIELDS = "# pxname,svname,qcur,scur,status,tracked,check_health,check_rise,check_fall"
STATISTICS = f"""{FIELDS}
secure,FRONTEND,,3,OPEN,,,,
hub,w1-1,0,2,UP,,4,2,3
hub,w2-1,1,0,UP 1/3,,2,2,3
hub,BACKEND,0,2,UP,,,,
hub_rooms,w1-1,0,1,UP,hub/w1-1,,,
hub_rooms,w2-1,0,0,UP,hub/w2-1,,,
shop,w1-1,0,7,UP,,4,2,3
"""


def server(name: str, status: str = "UP", backend: str = "hub") -> proxy.Server:
    return proxy.Server(backend, name, status, 0, follows=backend == "hub_rooms", proved=True)


def test_what_the_proxy_shows_is_read() -> None:
    assert proxy.read(STATISTICS, ["hub", "hub_rooms"]) == [
        proxy.Server("hub", "w1-1", "UP", 2, follows=False, proved=True),
        proxy.Server("hub", "w2-1", "UP 1/3", 1, follows=False, proved=False),
        proxy.Server("hub_rooms", "w1-1", "UP", 1, follows=True, proved=True),
        proxy.Server("hub_rooms", "w2-1", "UP", 0, follows=True, proved=True),
    ]


@pytest.mark.parametrize(
    ("name", "host"), [("w1-1", "w1"), ("w1-12", "w1"), ("w1-1-1", "w1-1"), ("a.b-c-3", "a.b-c"), ("w1", "")]
)
def test_the_host_is_what_stands_before_the_last_dash(name: str, host: str) -> None:
    assert server(name).host == host


@pytest.mark.parametrize(
    ("status", "up", "drained"),
    [
        ("UP", True, False),
        ("UP 1/3", True, False),
        ("no check", True, False),
        ("DOWN", False, False),
        ("DOWN 1/2", False, False),
        ("DRAIN", False, False),
        ("NOLB", False, False),
        ("MAINT", False, True),
        ("MAINT (via hub/w1-1)", False, True),
    ],
)
def test_what_a_status_means(status: str, *, up: bool, drained: bool) -> None:
    assert (server("w1-1", status).up, server("w1-1", status).drained) == (up, drained)


def test_every_server_of_the_host_is_drained_and_what_follows_is_not_told() -> None:
    servers = [server("w1-1"), server("w1-2", "DOWN"), server("w2-1"), server("w1-1", backend="hub_rooms")]
    servers.append(server("w2-1", backend="hub_rooms"))
    assert proxy.plan(servers, "w1", "drained") == [
        "set server hub/w1-1 state maint",
        "set server hub/w1-2 state maint",
    ]


def test_what_is_drained_is_not_told_again() -> None:
    assert proxy.plan([server("w1-1", "MAINT"), server("w1-2")], "w1", "ready") == [
        "set server hub/w1-1 state ready"
    ]
    assert proxy.plan([server("w1-1", "MAINT")], "w1", "drained") == []


@pytest.mark.parametrize("others", [[], [server("w2-1", "DOWN"), server("w3-1", "MAINT")]])
def test_the_last_ones_that_are_up_are_not_drained(others: list[proxy.Server]) -> None:
    with pytest.raises(proxy.Failed, match="w1 has the last web processes that are up"):
        proxy.plan([server("w1-1"), server("w1-2"), *others], "w1", "drained")


def test_what_is_down_anyhow_may_be_drained() -> None:
    assert proxy.plan([server("w1-1", "DOWN")], "w1", "drained") == ["set server hub/w1-1 state maint"]


def test_an_order_that_is_refused_fails_with_the_proxys_words(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = proxy.Runtime("/nowhere")
    monkeypatch.setattr(runtime, "ask", lambda _: "No such server.")
    with pytest.raises(proxy.Failed, match=r"refused “set server a/b state maint”: No such server\."):
        runtime.order("set server a/b state maint")
