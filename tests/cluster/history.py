"""What leaders told a receiver, in the order in which it came, and the rules that it must keep. Pure."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from rota.coordination.epoch import Epoch

SECOND = 1_000_000_000  # nanoseconds


@dataclass(frozen=True, kw_only=True)
class Act:
    """One act of a leader, as it was received.

    `kind` is start, act, late (decided under the lock, sent a moment later) or
    stop; `at` is when the kernel took it in, in nanoseconds since 1970.
    """

    task: str
    generation: int
    epoch: int
    holder: str
    kind: str
    number: int
    at: int
    accepted: bool

    @property
    def pair(self) -> Epoch:
        """What a receiver compares."""
        return Epoch(self.generation, self.epoch)

    def to_json(self) -> str:
        """Return one line of a history."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> "Act":
        """Return the act that a line holds."""
        return cls(**json.loads(line))


def broken(history: Iterable[Act]) -> list[str]:
    """Return every rule that a history breaks, each time as one sentence."""
    by_task: dict[str, list[Act]] = {}
    for act in history:
        by_task.setdefault(act.task, []).append(act)
    return [
        f"{task}: {fault}"
        for task, acts in sorted(by_task.items())
        for rule in (_one_holder, _nothing_old, _growing, _nothing_after_stop)
        for fault in rule(acts)
    ]


def _one_holder(acts: list[Act]) -> Iterator[str]:
    holders: dict[Epoch, str] = {}
    for act in acts:
        first = holders.setdefault(act.pair, act.holder)
        if act.holder != first:
            yield f"{first} and {act.holder} both acted under {_named(act.pair)}"


def _nothing_old(acts: list[Act]) -> Iterator[str]:
    """Find what was accepted too late, and what a leader that had just checked its lock did too late."""
    newest = acts[0].pair
    for act in acts:
        newest = max(newest, act.pair)
        if act.pair == newest:
            if not act.accepted:
                yield f"the newest leader's {act.kind} {act.number} under {_named(act.pair)} was refused"
        elif act.accepted:
            yield f"{act.holder}'s {act.kind} under {_named(act.pair)} was accepted after {_named(newest)}"
        elif act.kind != "late":
            yield f"{act.holder} trusted {_named(act.pair)} after {_named(newest)} had begun ({act.kind})"


def _growing(acts: list[Act]) -> Iterator[str]:
    seen: set[Epoch] = set()
    for act in acts:
        if act.kind == "start" and seen and act.pair <= max(seen):
            yield f"{act.holder} started under {_named(act.pair)} after {_named(max(seen))}"
        seen.add(act.pair)


def _nothing_after_stop(acts: list[Act]) -> Iterator[str]:
    stopped: set[Epoch] = set()
    for act in acts:
        if act.pair in stopped:
            yield f"{act.holder} acted under {_named(act.pair)} after its stop"
        if act.kind == "stop":
            stopped.add(act.pair)


def _named(pair: Epoch) -> str:
    return f"generation {pair.generation}, epoch {pair.epoch}"


def newest(history: Iterable[Act], task: str) -> Act | None:
    """Return the last accepted act of a task's newest leader."""
    last: Act | None = None
    for act in history:
        if act.task == task and act.accepted and (last is None or act.pair >= last.pair):
            last = act
    return last


def successor(history: Iterable[Act], before: Act) -> Act | None:
    """Return the first accepted act of whoever led after the leader of this act."""
    for act in history:
        if act.task == before.task and act.accepted and act.pair > before.pair:
            return act
    return None


def last(history: Iterable[Act], of: Act) -> Act:
    """Return the last act that came from one leader."""
    return max((act for act in history if (act.task, act.pair) == (of.task, of.pair)), key=lambda act: act.at)


def refused(history: Iterable[Act], of: Act) -> list[Act]:
    """Return the acts of one leader that were refused."""
    return [act for act in history if (act.task, act.pair) == (of.task, of.pair) and not act.accepted]
