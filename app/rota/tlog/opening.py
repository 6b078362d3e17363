"""Opening notes: which of the signatures are those of keys that we know."""

from collections.abc import Iterable
from dataclasses import dataclass

from rota.errors import MalformedError, SignatureError
from rota.tlog.checkpoint import Checkpoint, parse_checkpoint
from rota.tlog.cosignature import check_cosignature
from rota.tlog.keys import ED25519, Verifier
from rota.tlog.notes import Note, Signature, parse_note


@dataclass(frozen=True)
class Opened:
    """A text that at least one known key signed, and the signatures that were checked."""

    text: str
    verified: tuple[tuple[Verifier, Signature], ...]


def open_note(note: Note, known: Iterable[Verifier]) -> Opened:
    """Check the signatures of known keys; leave the others alone.

    Raises SignatureError where a known key's signature does not fit, stands
    there twice, or no known key signed at all.
    """
    keys = {(key.name, key.id): key for key in known}
    verified: dict[Verifier, Signature] = {}
    for signature in note.signatures:
        key = keys.get((signature.name, signature.key_id))
        if key is None:
            continue
        if key in verified:
            raise SignatureError(f"{key.name}: signed twice")
        if key.kind != ED25519:
            check_cosignature(key, note.text, signature)
        else:
            key.verify(note.text.encode(), signature.data)
        verified[key] = signature
    if not verified:
        raise SignatureError("signed by no key that is known here")
    return Opened(note.text, tuple(verified.items()))


def read_log_checkpoint(data: bytes, log: Verifier) -> tuple[Checkpoint, Note]:
    """Read a checkpoint of this very log: its key signed, and its name is the origin.

    Raises MalformedError or SignatureError.
    """
    note = parse_note(data)
    checkpoint = parse_checkpoint(open_note(note, [log]).text)
    if checkpoint.origin != log.name:
        raise MalformedError(f"a checkpoint of {checkpoint.origin!r}, and not of {log.name!r}")
    return checkpoint, note
