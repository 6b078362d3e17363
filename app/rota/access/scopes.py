"""The scopes that a route can ask for and an account or token can hold."""

from collections.abc import Iterable
from enum import StrEnum


class Scope(StrEnum):
    """What one may do. `admin` is every other one too, and accounts, tokens of others, and settings."""

    HUB_READ = "hub:read"
    TLOG_READ = "tlog:read"
    QUEUE_READ = "queue:read"
    QUEUE_WRITE = "queue:write"
    WEBHOOKS_READ = "webhooks:read"
    WEBHOOKS_WRITE = "webhooks:write"
    SERVERS_READ = "servers:read"
    SERVERS_WRITE = "servers:write"
    APPS_READ = "apps:read"
    APPS_WRITE = "apps:write"
    LOGS_READ = "logs:read"
    ROOMS_WRITE = "rooms:write"
    ADMIN = "admin"


class Gate(StrEnum):
    """What a route asks for that is no scope."""

    PUBLIC = "public"
    SIGNED_IN = "signed in"  # any account or token, whatever its scopes
    OWN = "its own"  # the route looks at a credential of its own


Needs = Scope | Gate
_NAMES = frozenset(map(str, Scope))


def parse_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Return the scopes of these names. Raises ValueError that lists them all."""
    try:
        return frozenset(Scope(name.strip()) for name in names if name.strip())
    except ValueError as error:
        raise ValueError(f"{error}: the scopes are {', '.join(Scope)}") from error


def covers(held: frozenset[Scope], wanted: Iterable[Scope]) -> bool:
    """Tell whether who holds these scopes may do all that is wanted."""
    return Scope.ADMIN in held or held.issuperset(wanted)


def granted(wanted: Iterable[Scope], held: frozenset[Scope]) -> frozenset[Scope]:
    """Return those wanted that who holds these may have."""
    return frozenset(scope for scope in wanted if covers(held, (scope,)))


def read_scopes(text: str) -> frozenset[Scope]:
    """Return the scopes of a text that `written` made. One of a newer program counts for nothing."""
    return frozenset(Scope(name) for name in text.split() if name in _NAMES)


def written(scopes: Iterable[Scope]) -> str:
    """Return scopes as one text, sorted, with spaces between."""
    return " ".join(sorted(scopes))
