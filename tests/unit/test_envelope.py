"""What travels between processes: its size, its cutting, its numbers."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.coordination.bus import envelope
from rota.coordination.bus.envelope import MOST, Heard, Numbers, fitting, pack, seal, unpack, unseal
from rota.coordination.bus.events import AnyEvent, Event, Live, ProposalChanged, RoomEvent

ORIGIN = "0123456789abcdef"
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def size(event: Event, number: int = 1) -> int:
    packed = fitting(event, ORIGIN, number)
    assert packed is not None
    return len(seal(ORIGIN, number, packed).encode())


def test_an_envelope_is_origin_number_and_event() -> None:
    payload = seal(ORIGIN, 7, pack(Live("app:1", "deploy")))
    assert json.loads(payload) == {
        "o": ORIGIN,
        "n": 7,
        "e": {"type": "live", "topic": "app:1", "kind": "deploy"},
    }


def test_the_longest_event_that_fits_is_sent_whole_and_one_byte_more_is_cut() -> None:
    spare = MOST - size(ProposalChanged("shop", 1, ""))
    fits = ProposalChanged("shop", 1, "x" * spare)
    assert size(fits) == MOST == 7999
    assert fitting(fits, ORIGIN, 1) == pack(fits)
    cut = fitting(ProposalChanged("shop", 1, "x" * (spare + 1)), ORIGIN, 1)
    assert cut is not None
    read = unpack(msgspec.Raw(cut))
    assert isinstance(read, ProposalChanged)
    assert read.cut
    assert "x" * len(read.event) == read.event != ""


def test_an_event_that_may_not_be_cut_stays_in_its_process() -> None:
    spare = MOST - size(RoomEvent("room", ""))
    assert size(RoomEvent("room", "x" * spare)) == MOST
    assert fitting(RoomEvent("room", "x" * (spare + 1)), ORIGIN, 1) is None


def test_what_is_too_long_even_when_cut_stays_in_its_process() -> None:
    assert fitting(ProposalChanged("s" * 9000, 1, "x"), ORIGIN, 1) is None


@given(TEXT, st.integers(0, 3), st.integers(1, 10**12))
def test_no_payload_is_longer_than_postgresql_takes(text: str, power: int, number: int) -> None:
    event = ProposalChanged("shop", 1, text * 30**power)
    packed = fitting(event, ORIGIN, number)
    assert packed is not None
    assert len(seal(ORIGIN, number, packed).encode()) <= MOST
    read = unpack(msgspec.Raw(packed))
    assert isinstance(read, ProposalChanged)
    assert event.event.startswith(read.event)
    assert read.cut == (read.event != event.event)


@given(st.builds(RoomEvent, room=TEXT, event=TEXT) | st.builds(Live, topic=TEXT, kind=TEXT), st.integers(1))
def test_what_is_sealed_is_read_back(event: AnyEvent, number: int) -> None:
    number = number % 2**53
    read = unseal(seal(ORIGIN, number, pack(event)))
    assert (read.o, read.n, unpack(read.e)) == (ORIGIN, number, event)


@pytest.mark.parametrize(
    "payload",
    ["", "x", "[]", '{"o":"a","n":1}', '{"o":1,"n":1,"e":{}}', '{"o":"a","n":"1","e":{}}', '{"o":"a","n":1,'],
)
def test_what_is_no_envelope_is_said_to_be_none(payload: str) -> None:
    with pytest.raises(ValueError, match="not an envelope of this program"):
        unseal(payload)


@pytest.mark.parametrize(
    "packed", [b'{"type":"of a newer program"}', b"{}", b"7", b'{"type":"live","kind":1}']
)
def test_an_event_that_is_not_known_is_said_to_be_none(packed: bytes) -> None:
    with pytest.raises(ValueError, match="not an event of this program"):
        unpack(msgspec.Raw(packed))


def test_numbers_find_gaps_and_doubles_for_each_origin() -> None:
    numbers = Numbers()
    heard = [
        numbers.hear(*each) for each in [("a", 5), ("a", 6), ("b", 1), ("a", 6), ("a", 8), ("a", 7), ("b", 2)]
    ]
    assert heard == [
        Heard.NEXT,
        Heard.NEXT,
        Heard.NEXT,
        Heard.AGAIN,
        Heard.AFTER_GAP,
        Heard.AGAIN,
        Heard.NEXT,
    ]


def test_a_gap_that_everybody_knows_of_is_forgiven_once() -> None:
    numbers = Numbers()
    numbers.hear("a", 1)
    numbers.forgive()
    assert [numbers.hear("a", n) for n in (1, 9, 11)] == [Heard.AGAIN, Heard.NEXT, Heard.AFTER_GAP]


def test_of_many_origins_the_newest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelope, "ORIGINS", 2)
    numbers = Numbers()
    for origin in "abac":
        numbers.hear(origin, 1 if origin != "a" else len(numbers._last) + 1)
    assert set(numbers._last) == {"a", "c"}
