"""Reading text that others wrote: one spelling for each value, anything else is refused.

Python's own readers are kinder than a log may be: `int` takes `+1`, `1_0` and
Arabic digits, `b64decode` drops what it does not know.
"""

import base64
import binascii
import re

from rota.errors import MalformedError

MOST = 2**63 - 1
HASH_SIZE = 32  # bytes of a SHA-256 hash

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


def number(text: str, most: int = MOST) -> int:
    """Return a decimal of ASCII digits without leading zeros. Raises MalformedError."""
    if not _DECIMAL.fullmatch(text) or int(text) > most:
        raise MalformedError(f"{text[:30]!r} is no plain decimal number up to {most}")
    return int(text)


def decoded(text: str) -> bytes:
    """Return what canonical, padded base64 stands for. Raises MalformedError."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise MalformedError(f"{text[:30]!r} is no base64") from error
    if encoded(data) != text:
        raise MalformedError(f"{text[:30]!r} is not the canonical base64 of what it stands for")
    return data


def encoded(data: bytes) -> str:
    """Return data as canonical, padded base64."""
    return base64.b64encode(data).decode()


def hash_of(text: str) -> bytes:
    """Return a hash written in base64. Raises MalformedError."""
    data = decoded(text)
    if len(data) != HASH_SIZE:
        raise MalformedError(f"a hash has {HASH_SIZE} bytes, and this one {len(data)}")
    return data
