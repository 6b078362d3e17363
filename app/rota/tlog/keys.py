"""Keys of signed notes: who signs, with what, and how it is written down."""

import re
from dataclasses import dataclass
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey

from rota.errors import MalformedError, SignatureError
from rota.tlog.strict import decoded, encoded

ED25519 = 0x01
COSIGNATURE = 0x04
MLDSA_COSIGNATURE = 0x06

PRIVATE = "PRIVATE+KEY+"
LONGEST_NAME = 255  # bytes

_SIZES = {ED25519: 32, COSIGNATURE: 32, MLDSA_COSIGNATURE: 1312}
_ID = re.compile(r"[0-9a-f]{8}", re.ASCII)
# Points of order 1, 2, 4 and 8: a key among them lets one signature fit many texts.
_SMALL = frozenset(
    bytes.fromhex(point)
    for point in (
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    )
)


def good_name(name: str) -> bool:
    """Tell whether a key may have this name: no space of any kind, no plus, no control character."""
    return (
        0 < len(name.encode(errors="surrogatepass")) <= LONGEST_NAME
        and not any(sign.isspace() or sign == "+" or sign < " " for sign in name)
        and not any("\ud800" <= sign <= "\udfff" for sign in name)
    )


def is_weak(public: bytes) -> bool:
    """Tell whether an Ed25519 key is one under which one signature fits many texts."""
    return public in _SMALL


def key_id(name: str, kind: int, public: bytes) -> bytes:
    """Return the four bytes that name a key beside its name."""
    return sha256(name.encode() + b"\n" + bytes([kind]) + public).digest()[:4]


@dataclass(frozen=True)
class Verifier:
    """A public key: `kind` is ED25519, COSIGNATURE or MLDSA_COSIGNATURE."""

    name: str
    kind: int
    public: bytes

    @property
    def id(self) -> bytes:
        """The four bytes that name it beside its name."""
        return key_id(self.name, self.kind, self.public)

    def verify(self, message: bytes, signature: bytes) -> None:
        """Check a bare signature. Raises SignatureError."""
        key = (
            MLDSA44PublicKey.from_public_bytes(self.public)
            if self.kind == MLDSA_COSIGNATURE
            else Ed25519PublicKey.from_public_bytes(self.public)
        )
        try:
            key.verify(signature, message)
        except InvalidSignature as error:
            raise SignatureError(f"{self.name}: the signature is not its own") from error

    def __str__(self) -> str:
        """Write it as a vkey."""
        return f"{self.name}+{self.id.hex()}+{encoded(bytes([self.kind]) + self.public)}"


@dataclass(frozen=True)
class Signer:
    """An Ed25519 key that signs; its seed has 32 bytes and is not shown."""

    verifier: Verifier
    _key: Ed25519PrivateKey

    def __repr__(self) -> str:
        """Show the public half alone."""
        return f"Signer({self.verifier})"

    def sign(self, message: bytes) -> bytes:
        """Return the bare signature, 64 bytes."""
        return self._key.sign(message)


def signer(name: str, seed: bytes, kind: int = ED25519) -> Signer:
    """Return the signer with this seed. Raises MalformedError for a bad name."""
    if not good_name(name):
        raise MalformedError(f"{name!r} cannot name a key: no spaces, no +, 255 bytes at most")
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return Signer(Verifier(name, kind, key.public_key().public_bytes_raw()), key)


def read_verifier(text: str) -> Verifier:
    """Read a vkey. Raises MalformedError: what is not exactly one is none."""
    parts = text.split("+", 2)
    if len(parts) != 3 or not good_name(parts[0]) or not _ID.fullmatch(parts[1]):  # noqa: PLR2004
        raise MalformedError("not a key: write NAME+HASH+KEY")
    name, shown, data = parts[0], parts[1], decoded(parts[2])
    if not data or _SIZES.get(data[0]) != len(data) - 1:
        raise MalformedError(f"{name}: a key of an unknown kind or of a wrong length")
    if data[0] != MLDSA_COSIGNATURE and is_weak(data[1:]):
        raise MalformedError(f"{name}: a weak key, under which one signature fits many texts")
    found = Verifier(name, data[0], data[1:])
    if found.id.hex() != shown:
        raise MalformedError(f"{name}: the hash in the middle is not that of the key")
    return found


def read_signer(text: str) -> Signer:
    """Read a private key of the form PRIVATE+KEY+NAME+HASH+SEED. Raises MalformedError."""
    parts = text.removeprefix(PRIVATE).split("+", 2)
    if not text.startswith(PRIVATE) or len(parts) != 3:  # noqa: PLR2004
        raise MalformedError("not a private key: `rota tlog key NAME` makes one")
    data = decoded(parts[2])
    if len(data) != 1 + _SIZES[ED25519] or data[0] not in (ED25519, COSIGNATURE):
        raise MalformedError("a private key of an unknown kind or of a wrong length")
    found = signer(parts[0], data[1:], data[0])
    if found.verifier.id.hex() != parts[1]:
        raise MalformedError(f"{parts[0]}: the hash in the middle is not that of the key")
    return found


def private_text(name: str, seed: bytes, kind: int = ED25519) -> str:
    """Write a private key down, as `read_signer` reads it."""
    verifier = signer(name, seed, kind).verifier
    return f"{PRIVATE}{name}+{verifier.id.hex()}+{encoded(bytes([kind]) + seed)}"
