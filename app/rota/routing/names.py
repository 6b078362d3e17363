"""Host names: every way to write one becomes the one that the proxy looks up. Pure."""

import re

from rota.errors import InputError

LONGEST = 253  # bytes of a name as it is sent

_PORT = re.compile(r":[0-9]{1,5}\Z")
_NUMBERS = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_HOSTILE = re.compile(r"[^\w.\-:\u3002\uff0e\uff61]|_")  # and the dots of Chinese and Japanese


def host_name(given: str) -> str:
    """Return a name as the proxy's map has it: A-labels in lower case, no port, no dot at the end.

    Raises InputError for what is no name of a host: an address, a pattern, a URL.
    """
    name = _PORT.sub("", given)
    if not name or len(given) > 4 * LONGEST or _HOSTILE.search(name) or ":" in name:
        raise _refused(given, "it holds something else than letters, digits, - and dots")
    import idna  # noqa: PLC0415 - its tables are large, and most commands never need them

    try:
        found = idna.encode(name, uts46=True, std3_rules=True).decode().lower().removesuffix(".")
    except idna.IDNAError as error:
        raise _refused(given, str(error)) from error
    if len(found) > LONGEST:
        raise _refused(given, f"it is longer than {LONGEST} bytes")
    if _NUMBERS.fullmatch(found.rpartition(".")[2]):
        raise _refused(given, "it is an address")
    return found


def shown(name: str) -> str:
    """Return a name as people read it."""
    import idna  # noqa: PLC0415

    try:
        return idna.decode(name)
    except idna.IDNAError:
        return name


def _refused(given: str, reason: str) -> InputError:
    return InputError(f"{given[:300]!r} is no name of a host: {reason}.", "Write one as shop.example.org.")
