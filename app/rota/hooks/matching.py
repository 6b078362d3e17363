"""Which acts a subscription is told of. Pure."""

import re
from collections.abc import Iterable

from rota.acts.act import Act
from rota.errors import InputError

EVERY = "*"
MOST = 50  # kinds of one subscription

_KIND = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*(\.\*)?")
_APP = re.compile(r"[a-z][a-z0-9-]{0,22}")


def checked_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return kinds and prefixes, each once and in order; none means every one. Raises InputError."""
    found = tuple(sorted({kind.strip() for kind in kinds if kind.strip()})) or (EVERY,)
    for kind in found:
        if kind != EVERY and not (_KIND.fullmatch(kind) and len(kind) <= 100):  # noqa: PLR2004
            raise InputError(
                f"{kind!r} is no kind of act.",
                "Name kinds as backup.make, prefixes as backup.*, or * for all.",
            )
    if len(found) > MOST:
        raise InputError(
            f"{len(found)} kinds are too many.", f"Name {MOST} at most, or a prefix as backup.*."
        )
    return found


def checked_app(app: str) -> str:
    """Return an app's name, or nothing for the whole platform. Raises InputError."""
    if app and not _APP.fullmatch(app):
        raise InputError(
            f"{app!r} is no app's name.", "Write it as shop: lower-case letters, digits and -, 23 at most."
        )
    return app


def matches(kinds: Iterable[str], app: str, act: Act) -> bool:
    """Tell whether a subscription to these kinds of this app's acts is told of an act."""
    if app and act.subject != f"app:{app}" and act.details.get("app") != app:
        return False
    return any(
        kind in (EVERY, act.kind) or (kind.endswith(".*") and act.kind.startswith(kind[:-1]))
        for kind in kinds
    )
