"""add-checkpoint (c2sp.org/tlog-witness): what is asked of a witness, and how it decides. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from rota.errors import MalformedError, ProofError, SignatureError
from rota.tlog.checkpoint import Checkpoint, parse_checkpoint
from rota.tlog.keys import Verifier
from rota.tlog.merkle import verify_consistency
from rota.tlog.notes import Note, parse_note
from rota.tlog.opening import open_note
from rota.tlog.strict import encoded, hash_of, number

PATH = "/add-checkpoint"
SIZE_TYPE = "text/x.tlog.size"
MOST_HASHES = 63
LONGEST = 131_072  # bytes of a request


@dataclass(frozen=True)
class Request:
    """A checkpoint to cosign, and the proof that it goes on from the one of size `old`."""

    old: int
    proof: tuple[bytes, ...]
    note: Note
    checkpoint: Checkpoint

    def __bytes__(self) -> bytes:
        """Write it as the body of a POST."""
        lines = [f"old {self.old}", *map(encoded, self.proof), "", str(self.note)]
        return "\n".join(lines).encode()


@dataclass(frozen=True)
class Seen:
    """What a witness last cosigned for one log."""

    size: int
    root: bytes


@dataclass(frozen=True)
class Refusal:
    """Why a witness does not cosign; `size` comes with CONFLICT."""

    status: HTTPStatus
    reason: str
    size: int | None = None


def make_request(old: int, proof: Sequence[bytes], note: Note) -> Request:
    """Return the request for a checkpoint of ours."""
    return Request(old, tuple(proof), note, parse_checkpoint(note.text))


def parse_request(body: bytes) -> Request:
    """Read a POST's body. Raises MalformedError."""
    head, blank, rest = body.partition(b"\n\n")
    if len(body) > LONGEST or not blank:
        raise MalformedError("a request is a size, hashes, an empty line, and a checkpoint")
    try:
        lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise MalformedError("sizes and hashes are ASCII") from error
    if not lines[0].startswith("old ") or len(lines) - 1 > MOST_HASHES:
        raise MalformedError(f"a request begins with `old SIZE` and has at most {MOST_HASHES} hashes")
    old = number(lines[0].removeprefix("old "))
    note = parse_note(rest)
    found = Request(old, tuple(map(hash_of, lines[1:])), note, parse_checkpoint(note.text))
    if old > found.checkpoint.size:
        raise MalformedError("the old size is beyond the new one")
    return found


def judge(request: Request, logs: Mapping[str, Sequence[Verifier]], seen: Seen | None) -> Refusal | None:
    """Decide whether to cosign; None says yes. `logs` maps each known origin to its keys."""
    checkpoint = request.checkpoint
    keys = logs.get(checkpoint.origin)
    if keys is None:
        return Refusal(HTTPStatus.NOT_FOUND, "this log is not known here")
    try:
        open_note(request.note, keys)
    except SignatureError as error:
        return Refusal(HTTPStatus.FORBIDDEN, str(error))
    last = seen.size if seen else 0
    if request.old != last:
        return Refusal(HTTPStatus.CONFLICT, f"the last size cosigned here is {last}", last)
    try:
        _check_growth(request, seen)
    except ProofError as error:
        return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
    return None


def _check_growth(request: Request, seen: Seen | None) -> None:
    if seen is None or seen.size == 0:
        if request.proof:
            raise ProofError("what begins with nothing needs no proof")
        return
    verify_consistency(seen.size, request.checkpoint.size, request.proof, seen.root, request.checkpoint.root)
