"""A job before, during and after an attempt: frozen values, and what may stand in them."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

LONGEST = 65536  # bytes of a payload: it names things, and what is large is a row or a file
ERROR = 4000  # characters kept of an error


class PayloadError(ValueError):
    """A payload is no strict JSON, or too long."""


# Thousands of these are made and read in a moment, which a Struct is quick at.
class NewJob(msgspec.Struct, frozen=True, kw_only=True):
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


class Claimed(msgspec.Struct, frozen=True):
    """One attempt at a job, leased to one worker. The payload is text as stored."""

    id: int
    kind: str
    payload: str
    attempts: int


class PutBack(msgspec.Struct, frozen=True):
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
        _check(dict(payload))
        packed = msgspec.json.encode(payload)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise PayloadError(f"a job's payload must be strict JSON: {error}") from error
    if len(packed) > LONGEST:
        raise PayloadError(
            f"a job's payload may have {LONGEST} bytes and this one has {len(packed)}: keep it in a row"
        )
    return packed.decode()


def decode(text: str) -> dict[str, Any]:
    """Read a stored payload. Raises PayloadError for what somebody else stored."""
    try:
        payload = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise PayloadError(f"the stored payload is no strict JSON: {error}") from error
    if not isinstance(payload, dict):
        raise PayloadError("the stored payload is no JSON object")
    return payload


def readable(error: str) -> str:
    """Return an error's text as both databases can keep it: no NUL, no half surrogate pair, not too long."""
    text = error.replace("\0", "\ufffd").encode(errors="replace").decode()
    return text if len(text) <= ERROR else f"{text[: ERROR // 4]} … {text[-(ERROR * 3 // 4 - 3) :]}"


def _check(value: object) -> None:
    """Refuse what JSON has no words for, or what a column of text cannot hold."""
    if isinstance(value, dict):
        for key, below in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{key!r} is no text")
            _check_scalar(key)
            _check(below)
    elif isinstance(value, list | tuple):
        for below in value:
            _check(below)
    else:
        _check_scalar(value)


def _check_scalar(value: object) -> None:
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("it may hold no NUL")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no JSON")
    elif value is not None and not isinstance(value, int):
        raise TypeError(f"{type(value).__name__} is no JSON")
