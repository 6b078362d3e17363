"""Values at rest: whoever has the public key seals, only the primary's worker opens.

A value is sealed by HPKE (RFC 9180, base mode: X25519, HKDF-SHA256,
ChaCha20-Poly1305) and bound to its app, name and version id, so that none can
be put in another's place.
"""

import base64
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rota.drivers.key_file import make_key_file
from rota.errors import ConflictError, KeyFileError
from rota.settings import Settings
from rota.settings.load import read_key_file
from rota.store.configurations import ConfigurationRow

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.hpke import Suite

FILE = "configuration"
INFO = b"rota configuration 1\0"
KEY = 32  # bytes
OVERHEAD = 48  # bytes by which what is sealed is longer


class Sealer:
    """Seals to one public key."""

    def __init__(self, public: str) -> None:
        """Take the key in base64url."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey  # noqa: PLC0415

        self._key = X25519PublicKey.from_public_bytes(_decoded(public))

    def seal(self, about: str, value: bytes) -> str:
        """Return a value as it is kept, good only where it is opened as being `about` the same."""
        sealed = _suite().encrypt(value, self._key, _info(about))
        return base64.b64encode(sealed).decode()


def about(app: str, name: str, identity: str) -> str:
    """Return what a value is bound to."""
    return f"{app}\0{name}\0{identity}"


def size_of(sealed: str) -> int:
    """Return how many bytes a sealed value has once it is opened."""
    return len(base64.b64decode(sealed)) - OVERHEAD


class Vault:
    """Opens with any of its keys; the first one's public half is what others seal to."""

    def __init__(self, settings: Settings) -> None:
        """Use this hub's keys, which are read when they are first needed."""
        self._settings = settings
        self._keys: list[X25519PrivateKey] = []

    @property
    def public(self) -> str:
        """The public key, in base64url. Raises ConflictError where this hub has no key, and KeyFileError."""
        return _encoded(self._read()[0].public_key().public_bytes_raw())

    def open(self, row: ConfigurationRow | None) -> dict[str, bytes]:
        """Return a version's names and values; those of None, which is the empty one. Raises KeyFileError."""
        if row is None:
            return {}
        return {
            name: self.unseal(about(row.app, name, row.names[name]), sealed)
            for name, sealed in row.sealed.items()
        }

    def unseal(self, about: str, sealed: str) -> bytes:
        """Return one value. Raises KeyFileError where no key opens it as being about this."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415

        data = base64.b64decode(sealed)
        for key in self._read():
            try:
                return _suite().decrypt(data, key, _info(about))
            except InvalidTag:
                continue
        app, name = about.split("\0")[:2]
        raise KeyFileError(
            f"configuration.key: it does not open the value {name} of {app}: put its old key behind the new "
            "one, or set the value again"
        )

    def _read(self) -> "list[X25519PrivateKey]":
        if not self._keys:
            self._keys = self._load()
        return self._keys

    def _load(self) -> "list[X25519PrivateKey]":
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # noqa: PLC0415

        text, where = self._settings.configuration.key.reveal(), "configuration.key"
        if not text and self._settings.sqlite:
            path = self._settings.keys_directory / FILE
            if not path.exists():
                make_key_file(path, new_key())
            text, where = read_key_file(path), str(path)
        if not text:
            raise ConflictError(
                "This hub has no key that opens apps' configuration.",
                "Give the primary's worker the credential configuration-key; `rota config key` makes one.",
            )
        try:
            return [X25519PrivateKey.from_private_bytes(_decoded(key.strip())) for key in text.split(",")]
        except ValueError as error:
            raise KeyFileError(f"{where}: no key that `rota config key` makes") from error


class Answering:
    """A key pair for one answer, which nobody keeps."""

    def __init__(self) -> None:
        """Make the pair."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # noqa: PLC0415

        self._key = X25519PrivateKey.generate()
        self.public = _encoded(self._key.public_key().public_bytes_raw())

    def open(self, about: str, sealed: str) -> bytes:
        """Return what was sealed to `public`."""
        return _suite().decrypt(base64.b64decode(sealed), self._key, _info(about))


def new_key() -> str:
    """Return a new key as text."""
    return _encoded(os.urandom(KEY))


def new_identity() -> str:
    """Return a random id for one version of one value; nothing in it comes from the value."""
    return os.urandom(8).hex()


def sealed_values(
    app: str, values: Mapping[str, bytes], public: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return names → new ids, and names → sealed values."""
    sealer, names = Sealer(public), {name: new_identity() for name in values}
    return names, {name: sealer.seal(about(app, name, names[name]), value) for name, value in values.items()}


def _suite() -> "Suite":
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite  # noqa: PLC0415

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


def _info(about: str) -> bytes:
    return INFO + about.encode()


def _decoded(key: str) -> bytes:
    """Read a key. Raises ValueError."""
    data = base64.urlsafe_b64decode(key + "=" * (-len(key) % 4))
    if len(data) != KEY:
        raise ValueError(f"{len(data)} bytes, not {KEY}")
    return data


def _encoded(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode().rstrip("=")
