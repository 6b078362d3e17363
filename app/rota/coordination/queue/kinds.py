"""The kinds of jobs that a worker knows, and what becomes of a job whose attempt failed. Pure rules."""

import json
import random
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from rota.coordination.queue.job import Claimed, PutBack, readable
from rota.store.database import Transaction

LEASE = 300.0  # seconds that a claim lasts without being renewed
ATTEMPTS = 8
LIMIT = 3600.0  # seconds after which an attempt is ended, however well it renews
FIRST = 30.0  # seconds until the second attempt; then twice as long each time
LONGEST = 3600.0  # seconds between two attempts at most
SPREAD = 0.15  # share by which a wait differs, so that what failed together does not return together

_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")


class Job(Protocol):
    """One attempt, as its handler sees it."""

    @property
    def id(self) -> int:
        """The job's id."""

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""

    @property
    def payload(self) -> dict[str, Any]:
        """What was enqueued."""

    async def finish(self, transaction: Transaction) -> None:
        """Finish the job in the handler's own transaction, so that both happen once or neither.

        Raises LeaseLostError where another worker has it by now: let it through, and nothing is committed.
        """


Handler = Callable[[Job], Awaitable[None]]


@dataclass(frozen=True)
class Kind:
    """One kind. A handler may run again after any fault: its effects must bear that.

    `primary` kinds are claimed on the primary alone. Times are seconds.
    """

    name: str
    handler: Handler
    lease: float = LEASE
    attempts: int = ATTEMPTS
    limit: float = LIMIT
    primary: bool = False

    def __post_init__(self) -> None:
        """Refuse a name that could not stand in a metric or a JSON path."""
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a kind's name is such as webhook.deliver, not {self.name!r}")


@dataclass(frozen=True)
class Kinds:
    """What one process knows, and what it leaves to others."""

    known: dict[str, Kind]
    barred: frozenset[str] = field(default=frozenset())

    @classmethod
    def of(cls, kinds: Iterable[Kind], *, primary: bool) -> "Kinds":
        """Take those that this process may run: elsewhere than on the primary, not what belongs there."""
        each = list(kinds)
        here = {kind.name: kind for kind in each if primary or not kind.primary}
        return cls(here, frozenset(kind.name for kind in each) - here.keys())

    @property
    def leases(self) -> str:
        """The leases that differ from LEASE, by kind, as JSON."""
        return json.dumps({kind.name: kind.lease for kind in self.known.values() if kind.lease != LEASE})

    @property
    def shortest_lease(self) -> float:
        """The shortest lease of all."""
        return min((kind.lease for kind in self.known.values()), default=LEASE)


def after_failure(kind: Kind, claimed: Claimed, error: str) -> PutBack:
    """Return what becomes of a job whose attempt failed: another one later, or none."""
    dead = claimed.attempts >= kind.attempts
    delay = 0.0 if dead else backoff(claimed.attempts) * random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311
    return PutBack(claimed.id, claimed.attempts, readable(error), delay, dead)


def backoff(attempts: int) -> float:
    """Return the seconds to wait after so many attempts, before they are spread."""
    return float(min(LONGEST, FIRST * 2 ** min(attempts - 1, 16)))


def without_trying(kinds: Kinds, claimed: Claimed) -> PutBack | None:
    """Return what becomes of a job that must not be tried; None for one that may be.

    Attempts are counted when a job is claimed, so that one which ends its
    worker each time comes to an end here.
    """
    kind = kinds.known.get(claimed.kind)
    if kind is None:
        error = f"no worker of this release knows the kind {claimed.kind}: upgrade, then retry it, or drop it"
    elif claimed.attempts > kind.attempts:
        error = f"its lease ran out at attempt {claimed.attempts - 1}: its worker ended, or lost the database"
    else:
        return None
    return PutBack(claimed.id, claimed.attempts, error, 0.0, dead=True, counted=False)
