"""What a value may be called, and how large configuration may be. Pure rules."""

import re
from collections.abc import Mapping

from rota.errors import InputError

LONGEST = 65_536  # bytes of one value
ALL = 524_288  # bytes of everything that an instance is started with
RESERVED = frozenset({"PORT", "HOST"})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)


def checked_name(name: str) -> str:
    """Return a name. Raises InputError for what can name no value."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} can name no value.", "Write letters, digits and _, not beginning with a digit."
        )
    if name in RESERVED:
        raise InputError(
            f"{name} is said by the server that runs the app.", "Read it in the app; give yours another name."
        )
    return name


def checked_value(name: str, value: bytes) -> bytes:
    """Return a value. Raises InputError for one that no process could be given."""
    if b"\0" in value:
        raise InputError(
            f"The value of {name} holds a NUL byte, which no process can be given.", "Encode it as text."
        )
    if len(value) > LONGEST:
        raise InputError(
            f"The value of {name} has {len(value)} bytes, and {LONGEST} is the most.",
            "Keep what is large in a file of the app or in its database.",
        )
    return value


def check_whole(values: Mapping[str, int]) -> None:
    """Refuse a configuration, given as name → bytes of its value, that is too large as a whole."""
    size = sum(len(name) + length + 2 for name, length in values.items())
    if size > ALL:
        raise InputError(
            f"With this the app's configuration would have {size} bytes, and {ALL} is the most.",
            "Take something away first: `rota config unset`.",
        )
