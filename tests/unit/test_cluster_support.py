"""What the drivers of the cluster's scenarios conclude from what they are told."""

import http.client
import json
import socket
from collections.abc import Iterator

import pytest
from tests.cluster import client
from tests.cluster.client import Count, Kind, Tally
from tests.cluster.cluster import owner, unsettled
from tests.cluster.hooks import read_hooks
from tests.cluster.inventory import parse

WELL = {"status": "ok", "tasks": ["a", "b"], "leading": ["a"]}
ANSWER = {"name": "w1", "version": "1"}
READ, WRITE = Kind("GET", "/trial/quick", kept=True), Kind("POST", "/trial/quick", kept=True)


def test_a_cluster_is_whole_when_all_are_well_and_each_task_is_led_once() -> None:
    other = {**WELL, "leading": ["b"]}
    assert unsettled({"p1/web": WELL, "w1/web": other}) == []
    assert unsettled({"p1/web": WELL}) == ["b is led 0 times"]
    assert unsettled({"p1/web": WELL, "w1/web": {**other, "leading": ["a", "b"]}}) == ["a is led 2 times"]
    resident = {**WELL, "tasks": ["a", "b", "queue.worker"]}
    assert unsettled({"p1/worker": resident, "w1/worker": {**resident, "leading": ["b"]}}) == []
    failing = {**other, "status": "failing", "reason": "database: away"}
    assert unsettled({"p1/web": WELL, "w1/web": failing}) == ["w1/web is failing database: away"]
    assert unsettled({"p1/web": {**WELL, "leading": ["a", "b"]}, "w1/web": {}}) == ["w1/web is silent"]


def test_a_socket_has_one_owner() -> None:
    line = '0 0 10.98.0.4:51620 10.98.0.1:5432 users:(("rota",pid=93,fd=10),("rota",pid=93,fd=11))'
    assert owner(line) == 93
    for strange in ("", line.replace("pid=93,fd=11", "pid=94,fd=11")):
        with pytest.raises(AssertionError):
            owner(strange)


def test_the_inventory_as_ansible_lists_it() -> None:
    variables = {
        name: {"ansible_host": f"10.78.0.{n}", "wireguard_address": f"10.98.0.{n}"}
        for n, name in enumerate(("p1", "w1", "k1"), start=1)
    }
    listed = {
        "_meta": {"hostvars": {**variables, "alone": {"ansible_host": "10.78.0.9"}}},
        "hub": {"children": ["cluster"]},
        "cluster": {"hosts": ["p1", "w1", "k1"]},
        "primary": {"hosts": ["p1"]},
        "web": {"hosts": ["p1", "w1"]},
        "worker": {"hosts": ["p1", "k1"]},
    }
    inventory = parse(listed)
    assert list(inventory.hosts) == ["k1", "p1", "w1"]
    assert inventory.primary.name == "p1"
    assert inventory.at("10.98.0.3").name == "k1"
    assert inventory.health_urls() == {
        "p1/web": "http://10.98.0.1:8421/health",
        "w1/web": "http://10.98.0.2:8421/health",
        "k1/worker": "http://10.98.0.3:8420/health",
        "p1/worker": "http://10.98.0.1:8420/health",
    }


class Scripted(http.client.HTTPConnection):
    """A connection whose other side says these bytes and closes."""

    def __init__(self, says: bytes) -> None:
        super().__init__("hub.test")
        self.sock, self._far = socket.socketpair()
        self._far.sendall(says)
        self._far.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close both ends."""
        super().close()
        self._far.close()


def said(document: object, status: int = 200) -> bytes:
    body = json.dumps(document).encode()
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.fixture
def good() -> Iterator[Scripted]:
    """Give a connection that answers a read rightly."""
    connection = Scripted(said(ANSWER))
    yield connection
    connection.close()


def test_a_read_on_a_kept_connection_that_was_closed_is_sent_again(good: Scripted) -> None:
    assert client._once(lambda: good, Scripted(b""), READ) == (good, "w1 1", 1)


def test_a_read_on_a_kept_connection_is_sent_once(good: Scripted) -> None:
    assert client._once(unwanted, good, READ) == (good, "w1 1", 0)


def test_a_write_is_never_sent_again() -> None:
    with pytest.raises(http.client.RemoteDisconnected):
        client._once(unwanted, Scripted(b""), WRITE)


def unwanted() -> http.client.HTTPConnection:
    raise AssertionError("sent again")


@pytest.mark.parametrize(
    "says", [b"", said(ANSWER, 503), said({**ANSWER, "sent": {}}), said(ANSWER)[:-1], said(ANSWER)[:-20]]
)
def test_everything_but_the_right_answer_is_a_failure(says: bytes) -> None:
    with pytest.raises(client.BROKEN):
        client._once(lambda: Scripted(says), None, READ)


def test_a_tally_survives_its_journey() -> None:
    tally = Tally({"GET": Count(3, 1, []), "POST": Count(2, 0, ["no"])}, {"w1 1": 5}, 2, ["cut"])
    assert Tally.from_json(tally.to_json()) == tally
    assert (tally.answered, tally.resent, tally.failed) == (5, 1, ["POST: no"])
    for words in ("told to reconnect 2 times, cut 1 times", "POST: no", "5 answered"):
        assert words in tally.summary()


def test_a_webhook_that_is_still_being_written_down_is_not_read() -> None:
    line = (
        '{"at": 7, "peer": "10.78.0.24", "path": "/quick", "id": "msg_1", "body": {"data": {"entry": 3}}}\n'
    )
    (hook,) = read_hooks(line + line[:40])
    assert (hook.at, hook.entry) == (7, 3)
