"""Cosignatures (c2sp.org/tlog-cosignature): what a witness says, and when it said so."""

from dataclasses import dataclass
from struct import Struct

from rota.errors import MalformedError, SignatureError
from rota.tlog.checkpoint import Checkpoint, parse_checkpoint
from rota.tlog.keys import LONGEST_NAME, MLDSA_COSIGNATURE, Signer, Verifier
from rota.tlog.notes import Signature
from rota.tlog.strict import MOST

_TIME = Struct(">Q")
_RANGE = Struct(">QQ")
_SUBTREE = b"subtree/v1\n\x00"


@dataclass(frozen=True)
class Cosigned:
    """One checked cosignature; `time` is in seconds since 1970."""

    witness: Verifier
    time: int


def cosign(signer: Signer, text: str, time: int) -> Signature:
    """Cosign the text of a checkpoint with an Ed25519 key."""
    message = _ed25519_message(text, time)
    return Signature(signer.verifier.name, signer.verifier.id, _TIME.pack(time) + signer.sign(message))


def check_cosignature(key: Verifier, text: str, signature: Signature) -> Cosigned:
    """Check one, of either kind. Raises SignatureError, or MalformedError for no checkpoint."""
    if len(signature.data) <= _TIME.size:
        raise SignatureError(f"{key.name}: a cosignature without a signature")
    (time,) = _TIME.unpack_from(signature.data)
    if not 0 < time <= MOST:
        raise SignatureError(f"{key.name}: a cosignature at no time")
    message = (
        subtree_message(key.name, parse_checkpoint(text), time)
        if key.kind == MLDSA_COSIGNATURE
        else _ed25519_message(text, time)
    )
    key.verify(message, signature.data[_TIME.size :])
    return Cosigned(key, time)


def subtree_message(witness: str, checkpoint: Checkpoint, time: int) -> bytes:
    """Return what an ML-DSA-44 cosignature of a whole checkpoint signs. Raises MalformedError."""
    if checkpoint.extensions:
        raise MalformedError("an ML-DSA cosignature covers no extension lines")
    name, origin = witness.encode(), checkpoint.origin.encode()
    if max(len(name), len(origin)) > LONGEST_NAME:
        raise MalformedError(f"names have at most {LONGEST_NAME} bytes")
    return b"".join(
        (
            _SUBTREE,
            bytes([len(name)]) + name,
            _TIME.pack(time),
            bytes([len(origin)]) + origin,
            _RANGE.pack(0, checkpoint.size),
            checkpoint.root,
        )
    )


def _ed25519_message(text: str, time: int) -> bytes:
    return f"cosignature/v1\ntime {time}\n{text}".encode()
