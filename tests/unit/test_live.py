"""The replay buffer, the bytes of an event, topics, and rooms: without a clock, a browser or a bus."""

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.access.principal import Principal
from rota.access.scopes import Scope
from rota.errors import InputError
from rota.live import wire
from rota.live.replay import Replay
from rota.live.topics import parse_room, parse_topics
from rota.rooms.rooms import MOST_CHOICES, MOST_ROOMS, Choice, Chosen, Rooms
from rota.web.problems import Problem
from rota.web.streams import MOST, MOST_EACH, MOST_WAITING, Stream, Streams

ACTS = frozenset({"acts"})
ADA = Principal(1, "ada", frozenset({Scope.HUB_READ}), session=1)


def write(number: str) -> bytes:
    return number.encode()


def numbers(replay: Replay, since: str, topics: frozenset[str] = ACTS, now: float = 0.0) -> list[int] | None:
    found = replay.since(since, topics, now)
    return None if found is None else [told.number for told in found]


def test_who_comes_back_gets_what_was_told_of_its_topics_meanwhile() -> None:
    replay = Replay()
    start = replay.newest
    for topic in ("acts", "queue", "acts"):
        replay.add(topic, write, 0.0)
    assert numbers(replay, start) == [1, 3]
    assert numbers(replay, start.replace("-0", "-1")) == [3]
    assert numbers(replay, replay.newest) == []
    assert numbers(replay, start, frozenset({"acts", "queue"})) == [1, 2, 3]


@pytest.mark.parametrize(
    "given",
    [
        "",
        "1",
        "-1",
        "x-1",
        "{part}-4",
        "{part}--1",
        "{part}-",
        "{part}-+1",
        "{part}-٣",
        "{part}-" + "9" * 5000,
    ],
)
def test_an_id_that_this_process_never_gave_is_unknown(given: str) -> None:
    replay = Replay()
    part = replay.newest.partition("-")[0]
    for _ in range(3):
        replay.add("acts", write, 0.0)
    assert numbers(replay, given.format(part=part)) is None


def test_ids_of_two_processes_differ() -> None:
    assert Replay().newest != Replay().newest


def test_what_has_left_the_buffer_by_number_or_by_age_is_unknown() -> None:
    replay = Replay(most=3, oldest=10.0)
    ids = [replay.newest] + [write_id(replay, float(at)) for at in range(5)]
    assert numbers(replay, ids[1], now=4.0) is None
    assert numbers(replay, ids[2], now=4.0) == [3, 4, 5]
    assert numbers(replay, ids[2], now=12.5) is None
    assert numbers(replay, ids[3], now=12.5) == [4, 5]
    assert numbers(replay, ids[4], now=100.0) is None
    assert numbers(replay, ids[5], now=100.0) == []


def write_id(replay: Replay, at: float) -> str:
    return replay.add("acts", write, at).data.decode()


def test_after_a_gap_every_older_id_is_unknown() -> None:
    replay = Replay()
    before = write_id(replay, 0.0)
    replay.forget()
    assert numbers(replay, before) is None
    assert numbers(replay, replay.newest) == []


def parsed(data: bytes) -> list[dict[str, str]]:
    """Read a stream as a browser does: blocks between empty lines, every end of a line known."""
    events, fields = [], dict[str, list[str]]()
    for line in re.split(r"\r\n|\r|\n", data.decode()):
        if not line:
            if "data" in fields:
                events.append({name: "\n".join(values) for name, values in fields.items()})
            fields = {}
            continue
        name, _, value = line.partition(":")
        fields.setdefault(name, []).append(value.removeprefix(" "))
    return events


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_exactly_one_event(text: str) -> None:
    (event,) = parsed(wire.event("live", text, number="ab-7"))
    assert event == {"id": "ab-7", "event": "live", "data": re.sub(r"\r\n|\r", "\n", text)}


def test_what_is_no_event_is_none() -> None:
    assert parsed(wire.BEAT) == []
    assert parsed(wire.mark("ab-7")) == []
    assert parsed(wire.event("elsewhere", retry=900)) == [{"retry": "900", "event": "elsewhere", "data": ""}]
    for name, number in (("", ""), ("a b", ""), ("live\n", ""), ("live", "1\n2"), ("live", "é")):
        with pytest.raises(ValueError, match="an event's name"):
            wire.event(name, number=number)


def test_topics() -> None:
    assert parse_topics("acts,queue,run:5,,app:shop.web-1") == {"acts", "queue", "run:5", "app:shop.web-1"}
    assert parse_topics("") == frozenset()
    for wrong in (
        "room/x",
        "Acts",
        "a b",
        "a:",
        ":5",
        "a:b:c",
        "a\n",
        "é",
        "x" * 33,
        ",".join(f"t{n}" for n in range(17)),
    ):
        with pytest.raises(InputError):
            parse_topics(wrong)


@pytest.mark.parametrize("name", ["server-s2", "deploy-shop-12", "a", "incident-2026-12-01"])
def test_a_rooms_name(name: str) -> None:
    assert parse_room(name) == name


@pytest.mark.parametrize(
    "name", ["", "A", "a b", "a/b", "..", "a-", "-a", "1a", "a--b", "é", "a\n", "a" * 17, "a-b-c-d-e"]
)
def test_what_is_no_rooms_name(name: str) -> None:
    with pytest.raises(InputError, match="no room's name"):
        parse_room(name)


def chosen(at: int) -> Chosen:
    return Chosen(Choice.WAIT, "ada", at, at)


def test_presence_counts_each_page_and_names_each_person_once() -> None:
    rooms = Rooms()
    assert rooms.join("r", "ada")
    assert not rooms.join("r", "ada")
    assert rooms.join("r", "bob")
    assert rooms.look("r").present == ["ada", "bob"]
    assert not rooms.leave("r", "ada")
    assert rooms.leave("r", "ada")
    assert rooms.leave("r", "bob")
    assert not rooms.occupied("r")
    assert not rooms.occupied("never")
    assert rooms.names() == []


def test_a_newcomer_finds_earlier_choices_also_of_an_empty_room() -> None:
    rooms = Rooms()
    for at in range(MOST_CHOICES + 5):
        rooms.choose("r", chosen(at))
    assert [each.at for each in rooms.look("r").choices] == list(range(5, MOST_CHOICES + 5))


def test_of_too_many_rooms_the_quietest_without_viewers_is_forgotten() -> None:
    rooms = Rooms()
    rooms.join("held", "ada")
    rooms.choose("held", chosen(1))
    for number in range(MOST_ROOMS + 10):
        rooms.choose(f"r{number}", chosen(number))
    assert len(rooms.look("held").choices) == 1
    assert rooms.look("r0").choices == []
    assert len(rooms.look(f"r{MOST_ROOMS + 9}").choices) == 1


async def taken(stream: Stream) -> bytes:
    async with asyncio.timeout(2):
        return await anext(stream)


def opened(streams: Streams, principal: Principal = ADA, *topics: str) -> Stream:
    return streams.open(principal, frozenset(topics) or ACTS, lambda _: None)


async def test_a_stream_carries_its_topics_in_order_and_then_ends() -> None:
    streams = Streams()
    stream, other = opened(streams), opened(streams, ADA, "queue")
    streams.tell("acts", b"1")
    streams.tell("acts", b"2")
    streams.tell_all(b"3")
    assert await taken(stream) == b"123"
    assert await taken(other) == b"3"
    waiting = asyncio.create_task(taken(stream))
    await asyncio.sleep(0)
    stream.end(b"bye")
    assert await waiting == b"bye"
    with pytest.raises(StopAsyncIteration):
        await taken(stream)
    await stream.close()
    await stream.close()
    assert len(streams) == 1


async def test_a_client_that_takes_nothing_is_cut_off_and_nobody_else_waits_for_it() -> None:
    streams = Streams()
    stuck, well = opened(streams), opened(streams)

    async def send() -> None:
        async for _ in stuck:
            await asyncio.Event().wait()  # the socket is full

    sending = asyncio.create_task(send())
    for number in range(MOST_WAITING + 2):
        streams.tell("acts", b"x")
        if number == 0:
            await asyncio.sleep(0)
        assert await taken(well) == b"x"
    await asyncio.wait({sending}, timeout=2)
    assert sending.cancelled()
    assert streams.counts.dropped == 1


async def test_who_may_no_longer_listen_hears_so_or_is_cut_off() -> None:
    streams = Streams()
    bob = Principal(2, "bob", frozenset({Scope.HUB_READ}), token=4)
    hers, his, stuck = opened(streams), opened(streams, bob), opened(streams, bob)

    async def send() -> None:
        async for _ in stuck:
            await asyncio.Event().wait()

    sending = asyncio.create_task(send())
    listening = asyncio.create_task(taken(his))
    streams.tell_all(b"x")
    await asyncio.sleep(0)
    assert await listening == b"x"
    listening = asyncio.create_task(taken(his))
    await asyncio.sleep(0)
    streams.end({bob}, b"over")
    assert await listening == b"over"
    await asyncio.wait({sending}, timeout=2)
    assert sending.cancelled()
    assert await taken(hers) == b"x"
    assert streams.callers() == {ADA, bob}
    assert streams.counts.revoked == 2


async def test_streams_are_bounded_for_each_account_and_in_all() -> None:
    streams = Streams()
    mine = [opened(streams) for _ in range(MOST_EACH)]
    with pytest.raises(Problem) as refused:
        streams.admit(ADA)
    assert (refused.value.status_code, dict(refused.value.headers or {})["Retry-After"]) == (429, "5")
    await mine[0].close()
    streams.admit(ADA)
    number = 2
    while len(streams) < MOST:
        opened(streams, Principal(number, "x", frozenset(), token=number))
        number += 1
    with pytest.raises(Problem) as full:
        streams.admit(Principal(0, "late", frozenset(), token=0))
    assert (full.value.status_code, dict(full.value.headers or {})["Retry-After"]) == (503, "5")
