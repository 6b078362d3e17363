"""Server-sent events as bytes (WHATWG HTML, section 9.2). Pure functions."""

import re

BEAT = b": beat\n\n"  # a comment, which no browser shows to a script

_NAME = re.compile(r"[a-z]{1,32}")
_ID = re.compile(r"[0-9a-z-]{1,64}")
# Every end of a line that a browser knows: a bare CR would let a text begin a line of its own.
_LINES = re.compile(r"\r\n|\r|\n")


def event(name: str, text: str = "", *, number: str = "", retry: int | None = None) -> bytes:
    """Return exactly one event, whatever its text holds.

    `number` is what a browser sends back as Last-Event-ID; `retry` is after how
    many milliseconds it comes back once the stream has ended.
    """
    if not _NAME.fullmatch(name) or (number and not _ID.fullmatch(number)):
        raise ValueError(f"{name!r}, {number!r}: an event's name is letters, and its id a number of ours")
    lines = [f"data: {line}" for line in _LINES.split(text)]
    if number:
        lines.insert(0, f"id: {number}")
    if retry is not None:
        lines.insert(0, f"retry: {retry}")
    return "\n".join([f"event: {name}", *lines, "", ""]).encode(errors="replace")


def mark(number: str) -> bytes:
    """Return what sets a browser's Last-Event-ID, and is no event."""
    return f"id: {number}\n\n".encode()
