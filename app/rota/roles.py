"""The roles that one hub process can take."""

from collections.abc import Iterable
from enum import StrEnum


class Role(StrEnum):
    """What one hub process does, in the order in which roles are reported."""

    WEB = "web"
    WORKER = "worker"


EVERY_ROLE = frozenset(Role)


def parse_roles(names: Iterable[str]) -> frozenset[Role]:
    """Read role names: trimmed, case folded, doubles and empty names dropped.

    No name at all means every role. Raises ValueError with a message for the
    operator on an unknown one.
    """
    roles = set()
    for name in names:
        wanted = name.strip()
        if not wanted:
            continue
        try:
            roles.add(Role(wanted.casefold()))
        except ValueError:
            known = " and ".join(Role)
            raise ValueError(f'unknown role "{wanted}": the roles are {known}') from None
    return frozenset(roles) or EVERY_ROLE


def in_order(roles: Iterable[Role]) -> list[Role]:
    """Return the roles in their fixed order."""
    held = set(roles)
    return [role for role in Role if role in held]
