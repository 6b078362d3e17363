"""What a request may hold: each field has one rule, and nothing else passes."""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

COPY = re.compile(
    r"(?P<app>[a-z][a-z0-9-]{0,22})\.[a-z][a-z0-9_-]{0,15}\.[1-9][0-9]{0,3}"
    r"@[1-9][0-9]{0,15}(?P<run>\.[1-9][0-9]{0,15})?"
)
HASH = re.compile(r"[0-9a-f]{64}")
BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
LONGEST_CONFIGURATION = 512 * 1024  # bytes
LONGEST_REQUEST = 1024 * 1024  # bytes

# A text of this form, or a whole number of this range.
Rule = re.Pattern[str] | range


class RefusedError(Exception):
    """A request is refused; the message says why."""


def parsed(data: bytes) -> dict[str, Any]:
    """Read a request: one JSON object, each key once. Raises RefusedError."""
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise RefusedError("the request is no JSON") from error
    if not isinstance(value, dict):
        raise RefusedError("the request is no JSON object")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key stands there twice")
    return dict(pairs)


def checked(rules: Mapping[str, Rule], request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request, all of them and no others. Raises RefusedError."""
    if set(request) != set(rules):
        raise RefusedError(f"the fields of this verb are {', '.join(rules)}")
    for name, rule in rules.items():
        value = request[name]
        if isinstance(rule, re.Pattern):
            fits = isinstance(value, str) and rule.fullmatch(value) is not None
        else:
            fits = isinstance(value, int) and not isinstance(value, bool) and value in rule
        if not fits:
            raise RefusedError(f"{name} is not of its form")
    return dict(request)


def configuration(value: str) -> bytes:
    """Return what a process is launched from, at most 512 KiB. Raises RefusedError."""
    try:
        data = base64.b64decode(value, validate=True)
    except ValueError as error:
        raise RefusedError("configuration is no base64") from error
    if len(data) > LONGEST_CONFIGURATION:
        raise RefusedError(f"configuration is longer than {LONGEST_CONFIGURATION} bytes")
    return data
