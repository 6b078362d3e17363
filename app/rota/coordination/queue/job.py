"""A job before, during and after an attempt: frozen values, and what may stand in them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LONGEST = 65536  # bytes of a payload: it names things, and what is large is a row or a file
ERROR = 4000  # characters kept of an error


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


# Made once: the functions of the module make one anew at each call.
_ENCODE = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode
_DECODE = json.JSONDecoder(parse_constant=_refuse).decode


class PayloadError(ValueError):
    """A payload is no strict JSON, or too long."""


@dataclass(frozen=True, kw_only=True)
class NewJob:
    """A job to enqueue.

    While a job of its kind with the same `key` waits, a second one is not
    enqueued. Once that is claimed the key is free again, because what changes
    from then on may escape it; with `keeps_key` it is taken until the job is gone.
    """

    kind: str
    payload: Mapping[str, object]
    key: str | None = None
    keeps_key: bool = False
    delay: float = 0.0  # seconds, by the database's clock


@dataclass(frozen=True)
class Claimed:
    """One attempt at a job, leased to one worker. The payload is text as stored."""

    id: int
    kind: str
    payload: str
    attempts: int


@dataclass(frozen=True)
class PutBack:
    """A job that was not finished: it waits `delay` seconds more (None: as it waited before), or is dead.

    `counted` is false where the attempt did not begin.
    """

    id: int
    attempts: int
    error: str | None = None
    delay: float | None = None
    dead: bool = False
    counted: bool = True


def encode(payload: Mapping[str, object]) -> str:
    """Return a payload as strict JSON. Raises PayloadError for what is none."""
    try:
        text = _ENCODE(dict(payload))
        size = len(text.encode())
    except (ValueError, TypeError, RecursionError) as error:
        raise PayloadError(f"a job's payload must be strict JSON: {error}") from error
    if size > LONGEST:
        raise PayloadError(
            f"a job's payload may have {LONGEST} bytes and this one has {size}: keep it in a row"
        )
    if "\\u0000" in text and any("\0" in part for part in _texts(payload)):
        raise PayloadError("a job's payload may hold no NUL")
    return text


def decode(text: str) -> dict[str, Any]:
    """Read a stored payload. Raises PayloadError for what somebody else stored."""
    try:
        payload = _DECODE(text)
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"the stored payload is no strict JSON: {error}") from error
    if not isinstance(payload, dict):
        raise PayloadError("the stored payload is no JSON object")
    return payload


def readable(error: str) -> str:
    """Return an error's text as both databases can keep it: no NUL, no half surrogate pair, not too long."""
    text = error.replace("\0", "\ufffd").encode(errors="replace").decode()
    return text if len(text) <= ERROR else f"{text[: ERROR // 4]} … {text[-(ERROR * 3 // 4 - 3) :]}"


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, below in value.items():
            yield str(key)
            yield from _texts(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _texts(below)
