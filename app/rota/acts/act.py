"""One act as the log holds it: bytes that are made once, and never again from anything else."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rota.errors import MalformedError, TlogError

VERSION = 1
MOST_WHOLE = 2**53 - 1  # the largest whole number that every reader of JSON reads alike


def _new_id() -> str:
    return secrets.token_hex(16)


def _now() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True, kw_only=True)
class Act:
    """Who did what to what.

    `kind` is like `backup.make`; `actor` an account, a token or a task;
    `subject` names what was changed. `details` hold text, whole numbers, and
    lists and maps of them; of a secret they hold its name and nothing derived
    from its value. `at` is in microseconds since 1970, by this process's clock.
    """

    kind: str
    actor: str
    subject: str
    details: Mapping[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=_new_id)
    at: int = field(default_factory=_now)

    def __bytes__(self) -> bytes:
        """Return the entry: JSON with sorted names and no spaces, as RFC 8785 has it for such values."""
        _check(self.details)
        document = {
            "act": self.kind,
            "actor": self.actor,
            "at": self.at,
            "details": self.details,
            "id": self.id,
            "subject": self.subject,
            "v": VERSION,
        }
        return msgspec.json.encode(document, order="sorted")


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """What an entry holds."""

    act: str
    actor: str
    at: int
    details: dict[str, Any]
    id: str
    subject: str
    v: int


def read_act(entry: bytes) -> Act:
    """Read an entry. Raises MalformedError where it is none that this program writes."""
    try:
        found = msgspec.json.decode(entry, type=_Entry)
    except msgspec.MsgspecError as error:
        raise MalformedError(f"not an act: {error}") from error
    act = Act(
        kind=found.act,
        actor=found.actor,
        subject=found.subject,
        details=found.details,
        id=found.id,
        at=found.at,
    )
    if found.v != VERSION or bytes(act) != entry:
        raise MalformedError("not an act as this program writes it")
    return act


def _check(value: object) -> None:
    """Refuse what readers of JSON do not read alike. Raises TlogError."""
    match value:
        case bool() | str() | None:
            return
        case int() if -MOST_WHOLE <= value <= MOST_WHOLE:
            return
        case list() | tuple():
            for each in value:
                _check(each)
        case Mapping():
            for name, each in value.items():
                if not isinstance(name, str) or not name.isascii():
                    raise TlogError(f"the details of an act have names of ASCII letters, and not {name!r}")
                _check(each)
        case _:
            raise TlogError(f"the details of an act hold text and whole numbers, and not {value!r}")
