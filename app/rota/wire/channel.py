"""Which message is taken: pure rules over what each side remembers of the other.

The order is that of the checks: the kind is legal, a key that may say it signed
it, it is strictly decoded, protocol, audience, session, number, epoch. What is
refused changes nothing; the caller persists what `judge` returns together with
its reply before it answers.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from rota.coordination.epoch import Epoch
from rota.wire.envelope import Sealed, seal
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
from rota.wire.keys import SigningKey
from rota.wire.statements import PROTOCOL, Count, Enrol, Message, Number, Strict


class Side(StrEnum):
    """Who sends."""

    HUB = "hub"
    SERVER = "server"


class Standing(StrEnum):
    """How the two stand to each other, as the receiver knows it."""

    AWAITED = "awaited"  # the operator has begun an enrolment
    ENROLLED = "enrolled"
    OVERDUE = "overdue"  # the sender's key has been replaced for longer than the overlap
    REMOVED = "removed"


# Every legal move; whatever is not here is refused.
LEGAL: dict[tuple[Side, Standing], frozenset[str]] = {
    (Side.SERVER, Standing.AWAITED): frozenset({"enrol"}),
    (Side.SERVER, Standing.ENROLLED): frozenset({"rotate", "report"}),
    (Side.SERVER, Standing.OVERDUE): frozenset({"rotate"}),
    (Side.SERVER, Standing.REMOVED): frozenset(),
    (Side.HUB, Standing.AWAITED): frozenset(),
    (Side.HUB, Standing.ENROLLED): frozenset({"place", "start", "stop", "rotate"}),
    (Side.HUB, Standing.OVERDUE): frozenset({"rotate"}),
    (Side.HUB, Standing.REMOVED): frozenset(),
}
# A report holds all that there is to say: one that was lost is not missed.
MAY_SKIP = frozenset({"report", "rotate"})
NO_EPOCH = Epoch(0, 0)
SESSION = r"^[0-9a-f]{32}\Z"


class Statement(Strict, frozen=True, kw_only=True):
    """A message with all that says for whom, by whom, and in which order. Times are in microseconds."""

    protocol: Count
    audience: Annotated[str, Meta(min_length=1, max_length=100)]
    sender: Annotated[str, Meta(min_length=1, max_length=100)]
    session: Annotated[str, Meta(pattern=SESSION)]
    seq: Number
    generation: Count = 0
    epoch: Count = 0
    issued_at: Count
    body: Message


@dataclass(frozen=True)
class Memory:
    """What a receiver keeps of one sender: the session, the last number taken, and the newest epoch."""

    session: str
    seq: int = 0
    epoch: Epoch = NO_EPOCH


@dataclass(frozen=True)
class Outgoing:
    """What a sender keeps of one receiver."""

    sender: str
    audience: str
    session: str
    seq: int
    epoch: Epoch = NO_EPOCH


@dataclass(frozen=True)
class Taken:
    """A statement that is taken; a `repeated` one was already, and its stored reply is the answer."""

    statement: Statement
    memory: Memory
    repeated: bool = False


def write(outgoing: Outgoing, body: Message, key: SigningKey, now: int | None = None) -> bytes:
    """Return the envelope of a message; the number in `outgoing` is its own."""
    statement = Statement(
        protocol=PROTOCOL,
        audience=outgoing.audience,
        sender=outgoing.sender,
        session=outgoing.session,
        seq=outgoing.seq,
        generation=outgoing.epoch.generation,
        epoch=outgoing.epoch.epoch,
        issued_at=time.time_ns() // 1000 if now is None else now,
        body=body,
    )
    return seal(kind_of(body), msgspec.json.encode(statement), key)


def kind_of(body: Message) -> str:
    """Return a message's name."""
    return str(type(body).__struct_config__.tag)


def refuse_illegal(kind: str, side: Side, standing: Standing) -> None:
    """Refuse what may not be said now. Raises IllegalError."""
    if kind not in LEGAL[side, standing]:
        raise IllegalError(f"a {side} that is {standing} may not send {kind[:40]!r}")


def decode(sealed: Sealed, keys: Iterable[str]) -> Statement:
    """Return the statement that one of these keys signed. Raises WireError and its kinds."""
    payload = sealed.verified(keys)
    try:
        statement = msgspec.json.decode(payload, type=Statement)
    except (msgspec.MsgspecError, RecursionError) as error:
        # Another program's messages may look different: say first that it is another's.
        if _protocol(payload) not in (None, PROTOCOL):
            raise _other_protocol(_protocol(payload)) from error
        raise WireError(f"the message is not as the protocol has it: {str(error)[:300]}") from error
    if kind_of(statement.body) != sealed.kind:
        raise WireError(f"an envelope for {sealed.kind} holds {kind_of(statement.body)}")
    return statement


class _Head(msgspec.Struct):
    protocol: int = 0


def _protocol(payload: bytes) -> int | None:
    try:
        return msgspec.json.decode(payload, type=_Head).protocol
    except (msgspec.MsgspecError, RecursionError):
        return None


def _other_protocol(found: object) -> ProtocolError:
    return ProtocolError(
        f"it speaks protocol {found} and this side protocol {PROTOCOL}: bring both to one release of Rota, "
        "the hub first"
    )


def judge(statement: Statement, memory: Memory, me: str, sender: str) -> Taken:
    """Decide whether a verified statement is taken, and return what to remember. Raises WireError's kinds."""
    if statement.protocol != PROTOCOL:
        raise _other_protocol(statement.protocol)
    if statement.audience != me:
        raise AudienceError(f"it is meant for {statement.audience}, and this is {me}")
    if statement.sender != sender:
        raise UnsignedError(f"it says that it comes from {statement.sender}, and {sender} signed it")
    if statement.session != memory.session:
        raise SessionError("it belongs to another session than the newest enrolment's")
    if statement.seq == memory.seq:
        return Taken(statement, memory, repeated=True)
    if statement.seq < memory.seq:
        raise StaleError(f"number {statement.seq} comes after number {memory.seq} was taken")
    if statement.seq != memory.seq + 1 and kind_of(statement.body) not in MAY_SKIP:
        raise GapError(memory.seq + 1)
    pair = Epoch(statement.generation, statement.epoch)
    if pair < memory.epoch:
        raise EpochError(
            f"generation {pair.generation}, epoch {pair.epoch} is older than generation "
            f"{memory.epoch.generation}, epoch {memory.epoch.epoch}: another process leads"
        )
    return Taken(statement, replace(memory, seq=statement.seq, epoch=pair))


def read_enrol(sealed: Sealed, hub: str) -> Statement:
    """Return an enrolment; its sender has the key that it names. Raises WireError's kinds."""
    if sealed.kind != "enrol" or len(sealed.signers) != 1:
        raise IllegalError("only an enrolment signed by its own key is taken here")
    statement = decode(sealed, sealed.signers)
    body = statement.body
    if not isinstance(body, Enrol) or body.public_key != sealed.signers[0]:
        raise UnsignedError("it is not signed by the key that it names")
    if statement.protocol != PROTOCOL:
        raise _other_protocol(statement.protocol)
    if statement.audience != hub:
        raise AudienceError(f"it is meant for {statement.audience}, and this is {hub}")
    if statement.sender != body.name:
        raise WireError(f"{statement.sender} asks to be enrolled as {body.name}")
    return statement
