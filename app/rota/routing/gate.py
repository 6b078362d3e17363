"""The sign-in gate's tokens, which the hub signs and the proxy verifies by itself.

A token is a JWT (HS256) that says who (`sub`), for which name (`aud`), by which
version of the app's gate (`gate`), until when (`exp`) and its own id (`jti`).
"""

import base64
import hashlib
import hmac
import os
from dataclasses import dataclass

import msgspec

from rota.drivers.key_file import make_key_file
from rota.errors import ConflictError
from rota.settings import Settings
from rota.settings.load import read_key_file

FILE = "gate"
LASTS = 12 * 3600  # seconds
PATH = "/.rota/gate"  # where the proxy takes a token from the hub's sign-in, at each app's name


@dataclass(frozen=True)
class Pass:
    """What a token says; `ends_at` is in seconds since 1970."""

    id: str
    account: str
    host: str
    version: int
    ends_at: int


def new_key() -> str:
    """Return a new key as text."""
    return _encoded(os.urandom(32))


def gate_keys(settings: Settings) -> list[str]:
    """Return the keys, the one that signs first.

    Raises ConflictError where a cluster was given none; the single-node edition
    makes one, once.
    """
    text = settings.routing.gate_key.reveal()
    if not text and settings.sqlite:
        path = settings.keys_directory / FILE
        if not path.exists():
            make_key_file(path, new_key())
        text = read_key_file(path)
    if not text:
        raise ConflictError(
            "This hub has no key that signs the tokens of gated apps.",
            "Give every process the same credential routing-gate-key; site.yml makes one.",
        )
    return [key.strip().rstrip("=") for key in text.split(",")]


def sign(given: Pass, key: str) -> str:
    """Return a token."""
    claims = {
        "sub": given.account,
        "aud": given.host,
        "gate": str(given.version),
        "jti": given.id,
        "exp": given.ends_at,
    }
    parts = (_HEADER, msgspec.json.encode(claims))
    body = ".".join(map(_encoded, parts))
    # The text of the key, as the proxy has it in a map.
    return f"{body}.{_encoded(hmac.new(key.encode(), body.encode(), hashlib.sha256).digest())}"


_HEADER = b'{"alg":"HS256","typ":"JWT"}'


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
