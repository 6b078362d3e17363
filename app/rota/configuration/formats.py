"""Files for `rota config import`: NAME=value lines, or a JSON object of texts. Any error refuses all."""

import re
from collections.abc import Iterator

import msgspec

from rota.configuration.names import checked_name, checked_value
from rota.errors import InputError

LONGEST = 1_000_000  # bytes
_LINE = re.compile(rb"(?:export[ \t]+)?([^\s=]+)[ \t]*=[ \t]*(.*)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b'"': b'"', b"\\": b"\\", b"$": b"$"}
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)


def read_lines(data: bytes) -> dict[str, bytes]:
    """Read NAME=value lines.

    A bare value goes to the end of its line, without spaces around it. What stands
    between single quotes is taken as it is, between double quotes backslashes escape;
    both may go over several lines. Raises InputError that names the line.
    """
    if len(data) > LONGEST:
        raise InputError(f"The file has {len(data)} bytes, and {LONGEST} is the most.", "Import parts of it.")
    found: dict[str, bytes] = {}
    for number, name, value in _assignments(data):
        try:
            text = name.decode("ascii")
            found[checked_name(text)] = checked_value(text, value)
        except UnicodeDecodeError as error:
            raise _wrong(number, "a name is of ASCII letters, digits and _") from error
        except InputError as error:
            raise _wrong(number, str(error).rstrip(".")) from error
    return found


def read_json(data: bytes) -> dict[str, bytes]:
    """Read a JSON object of texts. Raises InputError."""
    try:
        found = msgspec.json.decode(data, type=dict[str, str])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"This is no JSON object of texts: {error}.", 'Write {"NAME": "value"}.') from error
    return {checked_name(name): checked_value(name, value.encode()) for name, value in found.items()}


def _assignments(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (line, name, value)."""
    lines = iter(enumerate(data.split(b"\n"), 1))
    for number, written in lines:
        line = written.removesuffix(b"\r")
        if not line.strip() or line.lstrip().startswith(b"#"):
            continue
        match = _LINE.fullmatch(line.lstrip())
        if match is None:
            raise _wrong(number, "it is not NAME=value")
        name, value = match[1], match[2]
        quote = value[:1]
        if quote not in (b'"', b"'"):
            yield number, name, value.rstrip()
            continue
        value = value[1:]
        while (end := _end(value, quote)) is None:
            more = next(lines, None)
            if more is None:
                raise _wrong(number, "a quote does not end")
            value += b"\n" + more[1].removesuffix(b"\r")
        rest = value[end + 1 :].strip()
        if rest and not rest.startswith(b"#"):
            raise _wrong(number, "something follows the closing quote")
        yield number, name, _plain(number, value[:end]) if quote == b'"' else value[:end]


def _end(value: bytes, quote: bytes) -> int | None:
    """Return where the closing quote stands, None where it is not there yet."""
    at = 0
    while at < len(value):
        if value[at : at + 1] == quote:
            return at
        at += 2 if quote == b'"' and value[at : at + 1] == b"\\" else 1
    return None


def _plain(number: int, value: bytes) -> bytes:
    def plain(match: re.Match[bytes]) -> bytes:
        if match[1] not in _ESCAPES:
            raise _wrong(number, f"\\{match[1].decode('ascii', 'replace')} is no escape")
        return _ESCAPES[match[1]]

    return _ESCAPE.sub(plain, value)


def _wrong(number: int, what: str) -> InputError:
    return InputError(f"Line {number}: {what}.", "Nothing was imported: correct the file.")
