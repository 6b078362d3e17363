"""Who counts as lost: a pure rule over when each server was last heard of.

Silence counts only while the hub could hear. After any gap of its own every
server counts as live until its next report is due; and where several servers
fall silent together, it is the hub that is deaf, and nobody is lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

INTERVALS = 2  # reports that may be missing
SLACK = timedelta(seconds=1)


@dataclass(frozen=True)
class Sign:
    """A server's last sign of life, and whether it is marked lost."""

    name: str
    at: datetime | None
    lost: bool


@dataclass(frozen=True)
class Silence:
    """Who is newly lost; `deaf` says that the hub heard nobody, so nobody's silence counts."""

    lost: tuple[str, ...]
    deaf: bool


def patience(report_every: int) -> timedelta:
    """Return how long a server may be silent. `report_every` is in seconds."""
    return timedelta(seconds=INTERVALS * report_every) + SLACK


def silent(at: datetime | None, since: datetime, now: datetime, report_every: int) -> bool:
    """Tell whether a server's reports are missing; `since` is from when the hub could hear."""
    heard = since if at is None else max(at, since)
    return now - heard > patience(report_every)


def judge(signs: Sequence[Sign], since: datetime, now: datetime, report_every: int) -> Silence:
    """Decide who is lost. Those that are lost already have no say in whether the hub is deaf."""
    counted = [sign for sign in signs if not sign.lost]
    missing = [sign.name for sign in counted if silent(sign.at, since, now, report_every)]
    if len(counted) > 1 and len(missing) == len(counted):
        return Silence((), deaf=True)
    return Silence(tuple(missing), deaf=False)
