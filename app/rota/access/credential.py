"""What a caller shows: the random value of a session's cookie or of an API token, and what is kept of it."""

import secrets
from hashlib import sha256

BYTES = 32  # of randomness: nobody guesses it, so that a plain hash keeps it
# By it people, and scanners of repositories, know one.
TOKEN_PREFIX = "rota_"  # noqa: S105 - how every token begins


def new_cookie() -> str:
    """Return a new value for a session's cookie."""
    return secrets.token_urlsafe(BYTES)


def new_token() -> str:
    """Return a new API token."""
    return TOKEN_PREFIX + secrets.token_urlsafe(BYTES)


def digest(value: str) -> bytes:
    """Return what is kept of a value, 32 bytes."""
    return sha256(value.encode()).digest()
