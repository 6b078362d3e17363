"""The message that tells of an act, and its signature by the Standard Webhooks scheme. Pure."""

import base64
import binascii
import hashlib
import hmac
import secrets
from datetime import UTC, datetime

import msgspec

from rota.acts.act import Act
from rota.errors import InputError

PREFIX = "whsec_"
LEAST, MOST, MADE = 24, 64, 32  # bytes of a secret: at least, at most, and of one made here


def body_of(act: Act, entry: int) -> str:
    """Return the JSON that tells of an act, which is the entry of this index."""
    at = datetime.fromtimestamp(act.at / 1_000_000, UTC)
    document = {
        "type": act.kind,
        "timestamp": at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "data": {
            "act": act.kind,
            "actor": act.actor,
            "subject": act.subject,
            "details": act.details,
            "entry": entry,
            "id": act.id,
        },
    }
    return msgspec.json.encode(document).decode()


def message_id(act: str, webhook: str) -> str:
    """Return the id of a message: the same on each try, and another one for each webhook."""
    return f"msg_{act}_{webhook}"


def new_secret() -> str:
    """Return a new secret."""
    return PREFIX + base64.b64encode(secrets.token_bytes(MADE)).decode()


def secret_key(secret: str) -> bytes:
    """Return the bytes of a secret. Raises InputError, which repeats nothing of it."""
    remedy = f"Write {PREFIX} and {LEAST} to {MOST} bytes in base64, or give none and have one made."
    if not secret.startswith(PREFIX):
        raise InputError(f"The secret does not begin with {PREFIX}.", remedy)
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise InputError("The secret is no base64.", remedy) from None
    if not LEAST <= len(key) <= MOST:
        raise InputError(f"The secret has {len(key)} bytes.", remedy)
    return key


def signed_headers(secret: str, message: str, at: int, body: str) -> dict[str, str]:
    """Return the headers of one try; `at` is in seconds since 1970."""
    content = f"{message}.{at}.{body}".encode()
    digest = hmac.new(secret_key(secret), content, hashlib.sha256).digest()
    return {
        "webhook-id": message,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
