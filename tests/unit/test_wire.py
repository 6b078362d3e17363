"""Envelopes and statements: each message by each kind of key, and every way to spoil one."""

import base64
import hashlib
import itertools
import json
from typing import Any

import msgspec
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from rota.coordination.epoch import Epoch
from rota.errors import MalformedError
from rota.wire import statements as say
from rota.wire.channel import (
    LEGAL,
    Memory,
    Outgoing,
    Side,
    Standing,
    Statement,
    Taken,
    decode,
    judge,
    kind_of,
    read_enrol,
    refuse_illegal,
    write,
)
from rota.wire.envelope import MOST_SIGNATURES, seal, unseal
from rota.wire.errors import (
    AudienceError,
    EpochError,
    GapError,
    IllegalError,
    ProtocolError,
    SessionError,
    StaleError,
    UnsignedError,
    WireError,
)
from rota.wire.keys import SigningKey, public_key, read_keys
from rota.wire.request import RequestStatement, check, header, read_header

HUB, SERVER, STRANGER = (SigningKey.from_seed(bytes([n]) * 32) for n in (1, 2, 3))
SESSION = "0" * 31 + "1"
LOAD = say.Load(average=0, memory_free=1, memory=2, disk_free=3, disk=4)
MESSAGES: dict[str, say.Message] = {
    "enrol": say.Enrol(
        name="s1",
        token="t",
        public_key=SERVER.public,
        session=SESSION,
        distribution="debian 13",
        capabilities=say.Capabilities(virtualisation=False, memory=1, processors=1, architecture="x86_64"),
        agent_version="1",
    ),
    "rotate": say.Rotate(public_key=STRANGER.public),
    "place": say.Place(
        instance="shop.web.1", release=3, process_type="web", port=20000, statement="{}", proof="p"
    ),
    "start": say.Start(instance="shop.web.1", release=3, configuration={"A": "AA=="}),
    "stop": say.Stop(instance="shop.web.1", release=3),
    "report": say.Report(instances=[], load=LOAD, agent_version="1"),
}
SENDERS = {"hub": HUB, "server": SERVER, "stranger": STRANGER}


def sent(body: say.Message, key: SigningKey = SERVER, **changed: Any) -> bytes:
    usual: dict[str, Any] = {"sender": "s1", "audience": "hub:h", "session": SESSION, "seq": 1}
    return write(Outgoing(**{**usual, **changed}), body, key, now=0)


def read(data: bytes, *keys: SigningKey) -> Statement:
    return decode(unseal(data), [key.public for key in keys])


def test_every_message_has_a_legal_sender() -> None:
    assert set(MESSAGES) == set(say.KINDS) == {kind_of(body) for body in MESSAGES.values()}
    assert set().union(*LEGAL.values()) == set(say.KINDS)


@pytest.mark.parametrize(("kind", "signer"), [*itertools.product(MESSAGES, SENDERS)])
def test_each_message_is_taken_from_the_one_that_may_send_it(kind: str, signer: str) -> None:
    taken = set()
    data = sent(MESSAGES[kind], SENDERS[signer])
    for side, key in ((Side.HUB, HUB), (Side.SERVER, SERVER)):
        try:
            refuse_illegal(unseal(data).kind, side, Standing.ENROLLED)
            read(data, key)
        except WireError:
            continue
        taken.add(side.value)
    rightful = {side.value for side in Side if kind in LEGAL[side, Standing.ENROLLED]}
    assert taken == rightful & {signer}


@pytest.mark.parametrize(("side", "standing", "kind"), [*itertools.product(Side, Standing, say.KINDS)])
def test_what_is_not_in_the_table_is_illegal(side: Side, standing: Standing, kind: str) -> None:
    if kind in LEGAL[side, standing]:
        refuse_illegal(kind, side, standing)
    else:
        with pytest.raises(IllegalError):
            refuse_illegal(kind, side, standing)


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_second_verifier_agrees(kind: str) -> None:
    document = json.loads(sent(MESSAGES[kind]))
    payload, name = base64.b64decode(document["payload"]), document["payloadType"].encode()
    said = b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)
    signature = base64.b64decode(document["signatures"][0]["sig"])
    own = Ed25519PublicKey.from_public_bytes(base64.b64decode(SERVER.public))
    own.verify(signature, said)
    with pytest.raises(InvalidSignature):
        own.verify(signature, said + b" ")


def spoiled() -> dict[str, bytes]:
    whole = json.loads(sent(MESSAGES["report"]))
    one = whole["signatures"][0]

    def with_(**parts: object) -> bytes:
        return json.dumps({**whole, **parts}).encode()

    return {
        "nothing": b"",
        "no JSON": b"{",
        "a list": b"[]",
        "another field": with_(extra=1),
        "a field less": json.dumps({"payload": "", "payloadType": "x"}).encode(),
        "another payload": with_(payload=base64.b64encode(b"{}").decode()),
        "another type": with_(payloadType="application/vnd.rota.place+json"),
        "a type not ours": with_(payloadType="text/plain"),
        "a type beyond ASCII": with_(payloadType="application/vnd.rota.pläce+json"),
        "no signature": with_(signatures=[]),
        "no base64": with_(signatures=[{**one, "sig": "!"}]),
        "an empty signature": with_(signatures=[{**one, "sig": ""}]),
        "one twice": with_(signatures=[one, one]),
        "too many": with_(signatures=[{**one, "keyid": str(n)} for n in range(MOST_SIGNATURES + 1)]),
        "another key's name": with_(signatures=[{**one, "keyid": STRANGER.public}]),
        "too deep": b'{"payload":' + b"[" * 100_000,
    }


@pytest.mark.parametrize("what", spoiled())
def test_a_spoiled_envelope_is_refused_with_one_kind_of_error(what: str) -> None:
    with pytest.raises(WireError):
        read(spoiled()[what], SERVER)


@given(st.binary(max_size=300))
def test_no_bytes_at_all_raise_anything_else(data: bytes) -> None:
    with pytest.raises(WireError):
        read(data, SERVER)


@given(st.integers(0, 400), st.integers(1, 255))
def test_a_changed_byte_of_the_payload_is_refused(place: int, flip: int) -> None:
    document = json.loads(sent(MESSAGES["report"]))
    payload = bytearray(base64.b64decode(document["payload"]))
    payload[place % len(payload)] ^= flip
    document["payload"] = base64.b64encode(payload).decode()
    with pytest.raises(UnsignedError):
        read(json.dumps(document).encode(), SERVER)


def test_a_payload_with_a_field_too_many_is_refused() -> None:
    payload = json.loads(base64.b64decode(json.loads(sent(MESSAGES["stop"], HUB))["payload"]))
    for spot in (payload, payload["body"]):
        spot["more"] = 1
        with pytest.raises(WireError, match="not as the protocol has it"):
            read(seal("stop", json.dumps(payload).encode(), HUB), HUB)
        del spot["more"]


def test_another_protocol_is_named_even_where_its_messages_look_different() -> None:
    with pytest.raises(ProtocolError, match=r"protocol 2 .* the hub first"):
        read(seal("stop", b'{"protocol":2,"new":true}', HUB), HUB)


def test_an_envelope_for_one_message_does_not_carry_another() -> None:
    payload = base64.b64decode(json.loads(sent(MESSAGES["stop"], HUB))["payload"])
    with pytest.raises(WireError, match="for place holds stop"):
        read(seal("place", payload, HUB), HUB)


MEMORY = Memory(SESSION, seq=4, epoch=Epoch(1, 2))


def judged(kind: str = "stop", **changed: Any) -> Taken:
    usual: dict[str, Any] = {"seq": 5, "epoch": Epoch(1, 2)}
    statement = read(sent(MESSAGES[kind], **{**usual, **changed}), SERVER)
    return judge(statement, MEMORY, "hub:h", "s1")


def test_the_next_message_is_taken_and_remembered() -> None:
    taken = judged(epoch=Epoch(1, 3))
    assert (taken.memory, taken.repeated) == (Memory(SESSION, 5, Epoch(1, 3)), False)


def test_the_last_one_again_is_answered_and_changes_nothing() -> None:
    taken = judged(seq=4, epoch=Epoch(0, 0))
    assert (taken.memory, taken.repeated) == (MEMORY, True)


@pytest.mark.parametrize(
    ("error", "changed"),
    [
        (AudienceError, {"audience": "hub:other"}),
        (UnsignedError, {"sender": "s2"}),
        (SessionError, {"session": "f" * 32}),
        (StaleError, {"seq": 3}),
        (GapError, {"seq": 6}),
        (EpochError, {"epoch": Epoch(1, 1)}),
        (EpochError, {"epoch": Epoch(0, 9)}),
    ],
)
def test_every_other_one_is_refused_for_its_reason(error: type[WireError], changed: dict[str, Any]) -> None:
    with pytest.raises(error):
        judged(**changed)


def test_a_report_may_follow_one_that_was_lost() -> None:
    assert judged("report", seq=9).memory.seq == 9


def test_an_enrolment_proves_the_key_that_it_names() -> None:
    assert read_enrol(unseal(sent(MESSAGES["enrol"])), "hub:h").body == MESSAGES["enrol"]
    for data, error in (
        (sent(MESSAGES["enrol"], STRANGER), UnsignedError),
        (sent(MESSAGES["enrol"], audience="hub:x"), AudienceError),
        (sent(MESSAGES["enrol"], sender="s2"), WireError),
        (sent(MESSAGES["report"]), IllegalError),
    ):
        with pytest.raises(error):
            read_enrol(unseal(data), "hub:h")


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=60))
def test_reordered_repeated_and_lost_messages_are_taken_once_and_in_order(
    arrivals: list[tuple[int, bool]],
) -> None:
    memory, effects = Memory(SESSION), list[int]()
    for seq, _ in [*arrivals, *((n, False) for n in range(1, 10))]:
        statement = read(sent(MESSAGES["stop"], seq=seq), SERVER)
        try:
            taken = judge(statement, memory, "hub:h", "s1")
        except WireError:
            continue
        memory = taken.memory
        if not taken.repeated:
            effects.append(seq)
    assert effects == list(range(1, 10))


def test_keys_are_read_exactly() -> None:
    key = SigningKey.new()
    assert SigningKey.read(key.written()).public == key.public
    assert [each.public for each in read_keys(f"{key.written()}, {HUB.written()}")] == [
        key.public,
        HUB.public,
    ]
    assert key.written() not in repr(key)
    for text in ("", "short", key.written()[:-1], key.written() + "a", "ä" * 43):
        with pytest.raises(MalformedError):
            SigningKey.read(text)
    for public in ("", "AAAA", base64.b64encode(bytes(32)).decode(), key.public[:-1]):
        with pytest.raises(MalformedError):
            public_key(public)


def asked(**changed: object) -> RequestStatement:
    usual: dict[str, object] = {
        "audience": "hub:h",
        "sender": "s1",
        "method": "GET",
        "target": "/artifacts/x?a=1",
        "body": hashlib.sha256(b"").hexdigest(),
        "issued_at": 0,
    }
    return msgspec.convert({**usual, **changed}, RequestStatement)


def test_a_request_is_good_for_what_it_was_signed_for_alone() -> None:
    value = header(asked(), SERVER)
    keys = [SERVER.public]
    assert check(read_header(value), keys, "hub:h", "s1", ("GET", "/artifacts/x?a=1")) == asked()
    for hub, sender, target, error in (
        ("hub:x", "s1", "/artifacts/x?a=1", AudienceError),
        ("hub:h", "s2", "/artifacts/x?a=1", UnsignedError),
        ("hub:h", "s1", "/artifacts/y", UnsignedError),
    ):
        with pytest.raises(error):
            check(read_header(value), keys, hub, sender, ("GET", target))
    with pytest.raises(UnsignedError):
        check(read_header(value), [STRANGER.public], "hub:h", "s1", ("GET", "/artifacts/x?a=1"))
    for bad in ("", "!", "a" * 5000, base64.b64encode(sent(MESSAGES["report"])).decode()):
        with pytest.raises(WireError):
            read_header(bad)


def test_a_message_is_no_request_and_a_request_no_message() -> None:
    value = header(asked(), SERVER)
    with pytest.raises(WireError):
        read(base64.b64decode(value), SERVER)


def test_a_copy_of_an_instance_names_its_release() -> None:
    assert say.copy_name("shop.web.1", 12) == "shop.web.1@12"
