"""The signed envelope: DSSE (github.com/secure-systems-lab/dsse), by securesystemslib, in this module alone.

The library takes fields that it does not know and leaks five kinds of errors;
so the JSON is decoded here, exactly, before it sees any of it.
"""

import binascii
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import FormatError, UnverifiedSignatureError, VerificationError

from rota.errors import MalformedError
from rota.wire.errors import UnsignedError, WireError
from rota.wire.keys import SigningKey, public_key

if TYPE_CHECKING:
    from securesystemslib.signer._key import Key

MOST = (
    8 * 1024 * 1024
)  # bytes of an envelope: a configuration of 512 KiB twice in base64, and a report of many
MOST_SIGNATURES = 4
TYPE = "application/vnd.rota.{}+json"
_PREFIX, _SUFFIX = TYPE.split("{}")


class _Signature(msgspec.Struct, forbid_unknown_fields=True):
    keyid: Annotated[str, Meta(max_length=100)]
    sig: Annotated[str, Meta(max_length=200)]


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    payload: str
    payloadType: Annotated[str, Meta(max_length=100, pattern=r"^[!-~]+\Z")]  # noqa: N815 - DSSE's name
    signatures: Annotated[list[_Signature], Meta(min_length=1, max_length=MOST_SIGNATURES)]


@dataclass(frozen=True)
class Sealed:
    """An envelope that was taken apart and not believed yet: `kind` is its message's, such as place."""

    kind: str
    signers: tuple[str, ...]  # the keys that it says signed it
    _envelope: Envelope = field(repr=False)

    def verified(self, keys: Iterable[str]) -> bytes:
        """Return the payload if one of these public keys signed it with this kind. Raises UnsignedError."""
        known: list[Key] = [public_key(key) for key in keys]
        if not known:
            raise UnsignedError("no key is known that could have signed this")
        try:
            self._envelope.verify(known, 1)
        except (VerificationError, UnverifiedSignatureError, ValueError) as error:
            raise UnsignedError("the signature is by none of the keys that may say this") from error
        return bytes(self._envelope.payload)


def seal(kind: str, payload: bytes, key: SigningKey) -> bytes:
    """Return the envelope of a payload, signed, as JSON."""
    envelope = Envelope(payload, TYPE.format(kind), {})
    envelope.sign(key.signer)
    return msgspec.json.encode(envelope.to_dict())


def unseal(data: bytes) -> Sealed:
    """Take an envelope apart. Raises WireError for what is none."""
    if len(data) > MOST:
        raise WireError(f"an envelope of {len(data)} bytes: {MOST} at most")
    try:
        document = msgspec.json.decode(data, type=_Document)
        envelope = Envelope.from_dict(msgspec.to_builtins(document))
    except (msgspec.MsgspecError, KeyError, ValueError, AttributeError, FormatError, binascii.Error) as error:
        raise WireError(f"no signed envelope: {str(error)[:200]}") from error
    kind = document.payloadType.removeprefix(_PREFIX).removesuffix(_SUFFIX)
    if document.payloadType != TYPE.format(kind):
        raise WireError(f"an envelope of the type {document.payloadType}, which is none of ours")
    return Sealed(kind, tuple(each.keyid for each in document.signatures), envelope)


def check_public_key(text: str) -> str:
    """Return a public key as it was given. Raises WireError for what is none."""
    try:
        return public_key(text).keyid
    except MalformedError as error:
        raise WireError(f"no public key: {error}") from error
