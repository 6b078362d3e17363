"""Ed25519 keys of the hub and of servers: 32 bytes, in base64 where they are shown or sent."""

import base64
import re
import secrets
from dataclasses import dataclass, field
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer._crypto_signer import CryptoSigner
from securesystemslib.signer._key import SSlibKey

from rota.errors import MalformedError
from rota.tlog.keys import Signer, is_weak
from rota.tlog.keys import signer as note_signer
from rota.tlog.strict import decoded, encoded

SIZE = 32  # bytes
_SEED = re.compile(r"[A-Za-z0-9_-]{43}=?", re.ASCII)


def public_key(text: str) -> SSlibKey:
    """Return a public key as its library has it; its id is the text itself.

    Raises MalformedError for what is none, weak keys included.
    """
    data = decoded(text)
    if len(data) != SIZE:
        raise MalformedError(f"a public key has {SIZE} bytes, and this one {len(data)}")
    if is_weak(data):
        raise MalformedError("a weak key, under which one signature fits many texts")
    return SSlibKey(text, "ed25519", "ed25519", {"public": data.hex()})


@dataclass(frozen=True)
class SigningKey:
    """A private key; what is shown of it is `public`, in base64."""

    public: str
    signer: CryptoSigner = field(repr=False)
    _seed: bytes = field(repr=False)

    @classmethod
    def from_seed(cls, seed: bytes) -> Self:
        """Return the key of 32 bytes."""
        private = Ed25519PrivateKey.from_private_bytes(seed)
        public = encoded(private.public_key().public_bytes_raw())
        return cls(public, CryptoSigner(private, public_key(public)), seed)

    @classmethod
    def new(cls) -> Self:
        """Return a key that nobody has yet."""
        return cls.from_seed(secrets.token_bytes(SIZE))

    @classmethod
    def read(cls, text: str) -> Self:
        """Read 43 signs of base64url. Raises MalformedError, which does not repeat them."""
        if not _SEED.fullmatch(text):
            raise MalformedError("no key: it has 43 signs of base64url, which stand for 32 random bytes")
        return cls.from_seed(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))

    def written(self) -> str:
        """Return the private key as `read` reads it."""
        return base64.urlsafe_b64encode(self._seed).decode().rstrip("=")

    def note_signer(self, name: str, kind: int) -> Signer:
        """Return the same key as one that signs notes of a transparency log."""
        return note_signer(name, self._seed, kind)


def read_keys(text: str) -> list[SigningKey]:
    """Read keys with commas between, the one that signs first. Raises MalformedError."""
    return [SigningKey.read(each.strip()) for each in text.split(",")]
