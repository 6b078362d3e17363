"""Plain HTTP requests of a server: for artifacts, with output. Each carries a statement by the server's key.

They give no orders, and each may be sent again: a fetch changes nothing, and
lines of output have numbers. So a statement names method, target and body, and
is bound to the hub that it is for; it needs no number of its own.
"""

import base64
import binascii
from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rota.wire.envelope import Sealed, seal, unseal
from rota.wire.errors import AudienceError, UnsignedError, WireError
from rota.wire.keys import SigningKey
from rota.wire.statements import Count, Hex32, ServerName, Strict

HEADER = "Rota-Statement"
KIND = "request"
MOST = 4096  # signs of the header
EMPTY = sha256(b"").hexdigest()


class RequestStatement(Strict, frozen=True, kw_only=True):
    """What a server asks: `target` is the path with its query, `body` the SHA-256 of the body."""

    audience: Annotated[str, Meta(min_length=1, max_length=100)]
    sender: ServerName
    method: Literal["GET", "HEAD", "POST", "PUT"]
    target: Annotated[str, Meta(min_length=1, max_length=2000)]
    body: Hex32
    issued_at: Count


def header(statement: RequestStatement, key: SigningKey) -> str:
    """Return the value of the header."""
    return base64.b64encode(seal(KIND, msgspec.json.encode(statement), key)).decode()


def read_header(value: str) -> Sealed:
    """Take a header apart; `signers` of what is returned name the key to look up. Raises WireError."""
    if len(value) > MOST:
        raise WireError(f"the header {HEADER} is longer than {MOST} signs")
    try:
        sealed = unseal(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError) as error:
        raise WireError(f"the header {HEADER} is no base64") from error
    if sealed.kind != KIND:
        raise WireError(f"the header {HEADER} holds a {sealed.kind[:40]}")
    return sealed


def check(
    sealed: Sealed, keys: Iterable[str], hub: str, sender: str, asked: tuple[str, str]
) -> RequestStatement:
    """Return the statement if it is the sender's and of what was asked: method and target.

    The caller compares the body's hash once it has the body. Raises WireError's kinds.
    """
    payload = sealed.verified(keys)
    try:
        statement = msgspec.json.decode(payload, type=RequestStatement)
    except msgspec.MsgspecError as error:
        raise WireError(f"the statement is not as the protocol has it: {error}") from error
    if statement.audience != hub:
        raise AudienceError(f"it is meant for {statement.audience}, and this is {hub}")
    if statement.sender != sender:
        raise UnsignedError(f"it says that it comes from {statement.sender}, and {sender} signed it")
    if (statement.method, statement.target) != asked:
        raise UnsignedError("it was signed for another request")
    return statement
