"""The tunnel's peers: read from the file, compared with the interface, changed one by one."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("rota_tunnel", ROOT / "units" / "rota-tunnel.py")
assert SPEC
tunnel: ModuleType = importlib.util.module_from_spec(SPEC)
assert SPEC.loader
SPEC.loader.exec_module(tunnel)

PEERS = """\
# Kept by Rota's kit, from the inventory and the public keys beside it.

# w1
[Peer]
PublicKey = key-w1=
AllowedIPs = 10.98.0.2/32
Endpoint = 192.0.2.12:51820
PersistentKeepalive = 25

# w2
[Peer]
PublicKey = key-w2=
AllowedIPs = 10.98.0.3/32
Endpoint = [2001:db8::13]:51820
PersistentKeepalive = 25
"""
DUMP = (
    "private\tpublic\t51820\toff\n"
    "key-w1=\t(none)\t192.0.2.12:51820\t10.98.0.2/32\t1000\t5\t6\t25\n"
    "key-old=\t(none)\t192.0.2.99:51820\t10.98.0.3/32\t0\t5\t6\t25\n"
)
ENDPOINTS = {"w1": "192.0.2.12:51820", "w2": "[2001:db8::13]:51820"}


def test_the_file_is_read_with_its_hosts() -> None:
    w1, w2 = tunnel.read_peers(PEERS)
    assert w1 == tunnel.Peer("w1", "key-w1=", "10.98.0.2/32", "192.0.2.12:51820", "25")
    assert (w2.host, w2.endpoint) == ("w2", "[2001:db8::13]:51820")


def test_a_file_without_peers_has_none() -> None:
    assert tunnel.read_peers("# Kept by Rota's kit.\n") == []


def test_what_left_goes_first_what_came_is_added_and_the_rest_is_left_alone() -> None:
    steps = tunnel.plan(tunnel.read_peers(PEERS), tunnel.read_dump(DUMP), ENDPOINTS)
    assert steps == [
        ["peer", "key-old=", "remove"],
        [
            *("peer", "key-w2=", "endpoint", "[2001:db8::13]:51820"),
            *("allowed-ips", "10.98.0.3/32", "persistent-keepalive", "25"),
        ],
    ]


def test_a_name_that_does_not_resolve_leaves_the_endpoint_as_it_is() -> None:
    live = tunnel.read_dump(DUMP)
    wanted = tunnel.read_peers(PEERS)[:1]
    assert tunnel.plan(wanted, {"key-w1=": live["key-w1="]}, {}) == []
    assert tunnel.plan(wanted, {}, {}) == [
        ["peer", "key-w1=", "allowed-ips", "10.98.0.2/32", "persistent-keepalive", "25"]
    ]


def test_a_peer_that_moved_is_told_where_to() -> None:
    live = tunnel.read_dump(DUMP)
    (step,) = tunnel.plan(
        tunnel.read_peers(PEERS)[:1], {"key-w1=": live["key-w1="]}, {"w1": "198.51.100.7:51820"}
    )
    assert step[:4] == ["peer", "key-w1=", "endpoint", "198.51.100.7:51820"]


@pytest.mark.parametrize(("age", "names"), [(0, ["w2"]), (180, ["w2"]), (181, ["w1", "w2"])])
def test_a_peer_is_silent_by_its_handshake(age: int, names: list[str]) -> None:
    peers, live = tunnel.read_peers(PEERS), tunnel.read_dump(DUMP)
    assert [peer.host for peer in tunnel.silent(peers, live, 1000 + age)] == names


def test_an_endpoint_is_resolved_in_both_families() -> None:
    assert tunnel.resolve("127.0.0.1:51820") == "127.0.0.1:51820"
    assert tunnel.resolve("[::1]:51820") == "[::1]:51820"
    assert tunnel.resolve("no such name.invalid:51820") is None
