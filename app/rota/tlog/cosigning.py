"""Asking witnesses to cosign: the client's side of add-checkpoint."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

import structlog

from rota.errors import MalformedError, RotaError, SignatureError
from rota.tlog.addcheckpoint import PATH, SIZE_TYPE, make_request
from rota.tlog.checkpoint import Checkpoint, parse_checkpoint
from rota.tlog.cosignature import check_cosignature
from rota.tlog.notes import Note, Signature, parse_signatures
from rota.tlog.policy import Witness
from rota.tlog.strict import number

ANSWER = 1.0  # seconds within which a witness must answer
TRIES = 3  # requests to one witness for one checkpoint
LONGEST = 65_536  # bytes of an answer that are read

log = structlog.get_logger("rota.tlog")


@dataclass(frozen=True)
class Answer:
    """What a witness said: an HTTP status, its content type, and the body."""

    status: int
    kind: str
    body: bytes


class Post(Protocol):
    """Sends one request. Raises OSError or TimeoutError."""

    async def __call__(self, url: str, body: bytes) -> Answer:
        """POST a body; follow no redirect, read at most LONGEST bytes, take at most ANSWER seconds."""


# Gives the consistency proof from an older size to a newer one. May raise RotaError or OSError.
Prove = Callable[[int, Checkpoint], Sequence[bytes]]


class Cosigning:
    """Remembers how far each witness is, and gathers cosignatures from all of them at once."""

    def __init__(self, witnesses: Mapping[str, Witness], post: Post, prove: Prove) -> None:
        """Ask those witnesses whose address is known."""
        self._witnesses = [witness for witness in witnesses.values() if witness.url]
        self._post = post
        self._prove = prove
        self._sizes: dict[str, int] = {}
        self._silent: dict[str, str] = {}

    async def gather(self, note: Note) -> list[Signature]:
        """Return the checked cosignatures that came in time."""
        answers = await asyncio.gather(*(self._ask(witness, note) for witness in self._witnesses))
        return [signature for signature in answers if signature is not None]

    async def _ask(self, witness: Witness, note: Note) -> Signature | None:
        try:
            signature = await self._converse(witness, note)
        except (OSError, TimeoutError, RotaError) as error:
            reason = str(error) or type(error).__name__
            if self._silent.get(witness.name) != reason:
                log.warning("witness did not cosign", witness=witness.name, reason=reason)
            self._silent[witness.name] = reason
            return None
        if self._silent.pop(witness.name, None):
            log.info("witness cosigns again", witness=witness.name)
        return signature

    async def _converse(self, witness: Witness, note: Note) -> Signature:
        checkpoint = parse_checkpoint(note.text)
        for _ in range(TRIES):
            old = min(self._sizes.get(witness.name, 0), checkpoint.size)
            proof = await asyncio.to_thread(self._prove, old, checkpoint)
            body = bytes(make_request(old, proof, note))
            answer = await self._post(witness.url.rstrip("/") + PATH, body)
            if answer.status == HTTPStatus.OK:
                signature = _own(witness, note, answer.body)
                self._sizes[witness.name] = checkpoint.size
                return signature
            if answer.status != HTTPStatus.CONFLICT:
                raise MalformedError(
                    f"it answered {answer.status}: {answer.body[:200].decode(errors='replace')}"
                )
            self._sizes[witness.name] = _size_in(answer, old, checkpoint)
        raise MalformedError(f"it named another size {TRIES} times")


def _own(witness: Witness, note: Note, body: bytes) -> Signature:
    """Return the witness's own cosignature among the lines of its answer, checked."""
    try:
        lines = parse_signatures(body.decode())
    except UnicodeDecodeError as error:
        raise MalformedError("its answer is no UTF-8") from error
    for signature in lines:
        if (signature.name, signature.key_id) == (witness.key.name, witness.key.id):
            cosigned = check_cosignature(witness.key, note.text, signature)
            if cosigned.time > time.time() + 30:
                raise SignatureError("it cosigned in the future: look at its clock and at ours")
            return signature
    raise SignatureError("its answer holds no signature of its own")


def _size_in(answer: Answer, asked: int, checkpoint: Checkpoint) -> int:
    """Return the size in a 409. A size beyond our own is an alarm, and followed by nobody."""
    if answer.kind.partition(";")[0].strip() != SIZE_TYPE or not answer.body.endswith(b"\n"):
        raise MalformedError("it answered 409 without a size")
    size = number(answer.body[:-1].decode("ascii", errors="replace"))
    if size > checkpoint.size:
        raise SignatureError(
            f"it has seen {size} entries of this log, and we have {checkpoint.size}: someone signs with our "
            "key, or this log is an older copy"
        )
    if size == asked:
        raise MalformedError("it answered 409, and named the size that we asked with")
    return size
