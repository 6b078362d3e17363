"""Streams and rooms between two real processes of one hub."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import access
from tests.support.pair import Pair
from tests.support.postgres import Server
from tests.support.raw import Answer, Connection, ask
from tests.support.sql import run
from tests.support.sse import Stream
from tests.support.wait import wait_for

from rota.access.scopes import Scope
from rota.coordination.bus.events import Live, RoomEvent
from rota.web import streams

METRICS = "a-token-for-metrics"
VIEWER = (Scope.HUB_READ, Scope.ROOMS_WRITE)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Pair]:
    both = Pair.start(tmp_path_factory.mktemp("live"), postgres, ROTA_SERVER_METRICS_TOKEN=METRICS)
    yield both
    both.kill()


@pytest.fixture(scope="module")
def viewer(pair: Pair) -> str:
    return access.bearer(pair.environ, *VIEWER)


def choose(port: int, room: str, who: str, choice: str = "drain") -> Answer:
    body = json.dumps({"choice": choice})
    lines = (
        f"POST /api/rooms/{room}/choices HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        who,
    )
    with Connection(port) as connection:
        connection.send("".join(f"{line}\r\n" for line in (*lines, "")).encode() + body.encode())
        return connection.answer()


def metric(port: int, name: str) -> float:
    text = ask(port, "GET", "/metrics", f"Authorization: Bearer {METRICS}").text
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} "))


def test_an_act_of_one_process_is_seen_in_a_stream_of_the_other(pair: Pair, viewer: str) -> None:
    a, b = pair.ports
    with Stream.of(a, "topic=acts", viewer) as near, Stream.of(b, "topic=acts", viewer) as far:
        assert far.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert far.headers["cache-control"] == "no-store"
        assert far.headers["x-accel-buffering"] == "no"
        began = time.monotonic()
        assert choose(a, "nobody-here", viewer).status == 410
        for stream in (near, far):
            heard = stream.named("live")
            assert heard.json() == {"topic": "acts", "kind": "room.choose"}
            assert heard.id
        assert time.monotonic() - began < 3


def test_who_comes_back_gets_what_was_missed_and_nothing_twice(pair: Pair, viewer: str) -> None:
    _, b = pair.ports
    with Stream.of(b, "topic=run:5", viewer) as stream:
        wait_for(lambda: stream.id)
        pair.publish(Live("run:5", "one"))
        last = stream.named("live").id
    pair.publish(Live("run:5", "two"), Live("run:6", "other"), Live("run:5", "three"))
    wait_for(lambda: metric(b, "rota_live_streams") == 0)
    with Stream.of(b, "topic=run:5", viewer, f"Last-Event-ID: {last}") as stream:
        assert [stream.next().json() for _ in range(2)] == [
            {"topic": "run:5", "kind": "two"},
            {"topic": "run:5", "kind": "three"},
        ]
    with Stream.of(b, f"topic=run:5&since={last}", viewer) as stream:
        assert stream.next().json() == {"topic": "run:5", "kind": "two"}


@pytest.mark.parametrize("given", ["deadbeef0000-1", "1", "x", "'; --", "9" * 900])
def test_an_id_that_this_process_never_gave_is_answered_by_reload(
    pair: Pair, viewer: str, given: str
) -> None:
    a, _ = pair.ports
    with Stream.of(a, "topic=acts", viewer, f"Last-Event-ID: {given}") as stream:
        heard = stream.next()
        assert (heard.name, heard.text) == ("reload", "")
        assert heard.id
    with Stream.of(a, "topic=acts", viewer, f"Last-Event-ID: {heard.id}") as stream:
        pair.publish(Live("acts", "next"))
        assert stream.next().json() == {"topic": "acts", "kind": "next"}


def test_an_id_of_the_other_process_is_answered_by_reload(pair: Pair, viewer: str) -> None:
    a, b = pair.ports
    with Stream.of(a, "topic=acts", viewer) as stream:
        wait_for(lambda: stream.id)
    with Stream.of(b, "topic=acts", viewer, f"Last-Event-ID: {stream.id}") as stream:
        assert stream.next().name == "reload"


def test_what_no_stream_can_carry_is_refused(pair: Pair, viewer: str) -> None:
    a, _ = pair.ports
    for query in ("", "topic=", "topic=Acts", "topic=a%20b", "room=A", "room=../x", "topic=a&nothing=1"):
        with Connection(a) as connection:
            answer = connection.ask("GET", f"/live?{query}", viewer)
            assert answer.status == 400, query
            assert answer.headers["content-type"] == "application/problem+json"
    assert ask(a, "GET", "/live?topic=acts").status == 401
    assert ask(a, "GET", "/live?topic=acts", access.bearer(pair.environ, Scope.QUEUE_READ)).status == 403
    assert ask(a, "HEAD", "/live?topic=acts", viewer).status == 200
    for site in ("cross-site", "same-site"):
        assert ask(a, "GET", "/live?topic=acts", viewer, f"Sec-Fetch-Site: {site}").status == 403


def test_the_streams_of_a_token_or_session_that_is_over_end_within_5_s(pair: Pair, viewer: str) -> None:
    a, _ = pair.ports
    token = access.bearer(pair.environ, *VIEWER)
    cookie = access.session(pair.environ, *VIEWER)
    with (
        Stream.of(a, "topic=acts", token) as by_token,
        Stream.of(a, "topic=acts", cookie) as by_session,
        Stream.of(a, "topic=acts", viewer) as other,
    ):
        wait_for(lambda: by_token.id and by_session.id and other.id)
        run(
            pair.settings,
            "UPDATE api_tokens SET revoked_at = now() WHERE id = (SELECT max(id) FROM api_tokens)",
        )
        run(pair.settings, "DELETE FROM sessions")
        began = time.monotonic()
        for stream in (by_token, by_session):
            assert stream.named("revoked", within=5).text == ""
            assert stream.ended(within=1)
        assert time.monotonic() - began < 5
        pair.publish(Live("acts", "after"))
        assert other.named("live").json() == {"topic": "acts", "kind": "after"}
    assert metric(a, "rota_live_revoked_total") == 2


def held(port: int, client: int) -> list[str]:
    """Return the inode of the server's end of a connection: 0 once no process has it open."""
    ends = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [end[9] for end in ends if (end[1][-4:], end[2][-4:]) == (f"{port:04X}", f"{client:04X}")]


def test_a_client_that_reads_nothing_is_dropped_and_nobody_waits_for_it(pair: Pair, viewer: str) -> None:
    a, _ = pair.ports
    with socket.socket() as stuck, Stream.of(a, "topic=run:9", viewer) as well:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(("127.0.0.1", a))
        stuck.sendall(f"GET /live?topic=run:9 HTTP/1.1\r\nHost: h\r\n{viewer}\r\n\r\n".encode())
        wait_for(lambda: metric(a, "rota_live_streams") == 2)
        count = 0
        while metric(a, "rota_live_dropped_total") == 0:
            assert count < 20_000
            events = [Live("run:9", f"{'x' * 3000}{number}") for number in range(count, count + 1000)]
            pair.publish(*events)
            for event in events:
                assert well.named("live").json() == {"topic": "run:9", "kind": event.kind}
            count += 1000
        wait_for(lambda: metric(a, "rota_live_streams") == 1)
        wait_for(lambda: held(a, stuck.getsockname()[1]) == ["0"], within=5)


def test_more_streams_than_one_account_may_have_are_refused_with_the_time_to_try_again(pair: Pair) -> None:
    a, _ = pair.ports
    greedy = access.bearer(pair.environ, *VIEWER)
    opened = [Stream(a, "topic=acts", greedy) for _ in range(streams.MOST_EACH)]
    refused = ask(a, "GET", "/live?topic=acts", greedy)
    assert (refused.status, refused.headers["retry-after"]) == (429, "5")
    for stream in opened:
        stream.close()
    wait_for(lambda: metric(a, "rota_live_streams") == 0)
    with Stream.of(a, "topic=acts", greedy) as stream:
        assert stream.status == 200


class TestRooms:
    def test_a_choice_reaches_every_viewer_in_every_process(self, pair: Pair, viewer: str) -> None:
        a, b = pair.ports
        with Stream.of(a, "room=server-s2", viewer) as ada, Stream.of(b, "room=server-s2", viewer) as bob:
            assert ada.named("snapshot").json()["choices"] == []
            bob.named("snapshot")
            answer = choose(a, "server-s2", viewer)
            assert answer.status == 200
            chosen = json.loads(answer.body)
            assert (chosen["choice"], chosen["by"][:8]) == ("drain", "account-")
            for stream in (ada, bob):
                assert stream.named("room").json() == chosen
        proof = access.bearer(pair.environ, Scope.TLOG_READ)
        wait_for(lambda: ask(a, "GET", f"/log/entries/{chosen['entry']}", proof).status == 200)
        entry = json.loads(ask(b, "GET", f"/log/entries/{chosen['entry']}/bytes", proof).body)
        assert (entry["act"], entry["subject"]) == ("room.choose", "room:server-s2")
        assert entry["details"] == {"choice": "drain"}

    def test_a_newcomer_hears_who_is_here_and_what_was_chosen(self, pair: Pair) -> None:
        a, _ = pair.ports
        ada, bob = (access.bearer(pair.environ, *VIEWER) for _ in "ab")
        with Stream.of(a, "room=halted-7", ada) as first:
            (name,) = first.named("presence").json()
            assert choose(a, "halted-7", ada, "wait").status == 200
            with Stream.of(a, "room=halted-7", bob) as second:
                snapshot = second.named("snapshot").json()
                assert name in snapshot["present"]
                assert [each["choice"] for each in snapshot["choices"]] == ["wait"]
                assert len(first.named("presence").json()) == 2
            assert first.named("presence").json() == [name]

    def test_where_nobody_is_a_choice_is_passed_on_and_answers_410(self, pair: Pair, viewer: str) -> None:
        a, b = pair.ports
        with Stream.of(b, "room=lost-s3", viewer) as there:
            there.named("snapshot")
            answer = choose(a, "lost-s3", viewer, "remove")
            assert answer.status == 410
            assert "passed on" in json.loads(answer.body)["detail"]
            assert there.named("room").json()["choice"] == "remove"

    @pytest.mark.parametrize("choice", ["", "Wait", "destroy", "wait "])
    def test_what_is_no_choice(self, pair: Pair, viewer: str, choice: str) -> None:
        assert choose(pair.ports[0], "r", viewer, choice).status == 400

    def test_names_and_scopes(self, pair: Pair, viewer: str) -> None:
        a, _ = pair.ports
        for name in ("A", "a--b", "%C3%A9", "-"):
            assert choose(a, name, viewer).status == 400
            assert ask(a, "GET", f"/rooms/{name}", viewer).status == 400
        reader = access.bearer(pair.environ, Scope.HUB_READ)
        assert choose(a, "r", reader).status == 403
        page = ask(a, "GET", "/rooms/r", reader)
        assert (page.status, "rooms:write" in page.text) == (200, True)
        assert ask(a, "GET", "/rooms", reader).status == 200
        led = ask(a, "GET", "/rooms?name=server-s2", reader)
        assert (led.status, led.headers["location"]) == (303, "/rooms/server-s2")

    def test_a_choice_that_another_program_writes_breaks_nothing(self, pair: Pair, viewer: str) -> None:
        a, _ = pair.ports
        with Stream.of(a, "room=odd", viewer) as stream:
            stream.named("snapshot")
            pair.publish(RoomEvent("odd", "{}"))
            assert choose(a, "odd", viewer).status == 200
            assert stream.named("room").json()["choice"] == "drain"


def test_a_stopping_process_sends_its_streams_elsewhere_over_some_seconds(pair: Pair, viewer: str) -> None:
    a, b = pair.ports
    opened = [Stream(a, "topic=acts,hub", viewer) for _ in range(20)]
    pair.restart(0)
    told = [stream.named("elsewhere") for stream in opened]
    for stream in opened:
        assert stream.ended(within=1)
        stream.close()
    waits = sorted(heard.retry or 0 for heard in told)
    assert 0 < waits[0] < waits[-1] <= 4000
    assert waits[-1] - waits[0] > 1000, "they do not all come in one moment"
    last = f"Last-Event-ID: {opened[0].id}"
    for port in (a, b):
        with Stream.of(port, "topic=acts", viewer, last) as stream:
            assert stream.next().name == "reload"
