"""One run of faults against a cluster: its receiver, its figures, and what must hold after each fault."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.cluster import Cluster, Holder, unsettled
from tests.cluster.history import SECOND, Act, broken, last, newest, successor
from tests.cluster.inventory import Host
from tests.support.wait import wait_for

PORT = 8600  # molecule/failover/files/probe.py sends here
SETTLED = 60.0  # seconds for a cluster to be whole again after a fault: no promise, only an end
MOVED = 30.0  # seconds to wait for a successor, whatever is promised


class Receiver:
    """The program that hears every act, and its history so far."""

    def __init__(self, cluster: Cluster, file: Path) -> None:
        """Start it on the lab's network and wait until it listens."""
        self._process = cluster.beside("tests.cluster.receiver", "0.0.0.0", str(PORT), str(file))  # noqa: S104
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        self._lines = file.open()
        self._rest = ""
        self._history: list[Act] = []

    def history(self) -> list[Act]:
        """Return every act so far."""
        *lines, self._rest = (self._rest + self._lines.read()).split("\n")
        self._history += map(Act.from_json, lines)
        return self._history

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate(timeout=10)
        self._lines.close()


@dataclass(frozen=True)
class Figure:
    """One measured time, in seconds, and the most it may be."""

    what: str
    seconds: float
    promise: float

    def __str__(self) -> str:
        kept = "kept" if self.seconds <= self.promise else "BROKEN"
        return f"{self.what:<58} {self.seconds:6.2f} s   ≤ {self.promise:4.1f} s   {kept}"


@dataclass
class Trial:
    """A cluster with a receiver."""

    cluster: Cluster
    receiver: Receiver
    figures: list[Figure] = field(default_factory=list)

    def note(self, what: str, since: int, until: int, promise: float) -> None:
        """Keep a figure, of two moments in nanoseconds; fail where the promise is not kept."""
        figure = Figure(what, (until - since) / SECOND, promise)
        self.figures.append(figure)
        print(figure)
        assert figure.seconds <= figure.promise, str(figure)

    def leader(self, task: str, but: Host | None = None) -> tuple[Holder, Act]:
        """Return who leads, by its lock connection and by its newest act: both must name one process."""
        self.settle()
        holder = self.cluster.holder(task)
        if holder.host == but:
            act = self._last(task)
            self.cluster.strike(holder.host, self.cluster.parent(holder.host, holder.pid), signal.SIGTERM)
            self.successor(act)
            return self.leader(task)
        act = self._last(task)
        assert act.holder == holder.name
        return holder, act

    def _last(self, task: str) -> Act:
        act = wait_for(lambda: newest(self.receiver.history(), task))
        assert act is not None
        return act

    def successor(self, before: Act, within: float = MOVED) -> Act:
        """Return the first act of the next leader, once there is one."""
        act = wait_for(lambda: successor(self.receiver.history(), before), within=within)
        assert act is not None
        return act

    def heard(self, act: Act) -> int:
        """Return when the newest act of that act's leader came."""
        return last(self.receiver.history(), act).at

    def settle(self, but: str = "") -> int:
        """Wait until every process is well and every task led exactly once; return when it was seen.

        `but` is a process, as HOST/ROLE, that is not asked. After it no rule may be broken.
        """
        end = time.monotonic() + SETTLED
        at, health = self.cluster.look(but)
        while said := unsettled(health):
            assert time.monotonic() < end, f"not whole within {SETTLED:g} s: {said}"
            time.sleep(0.1)
            at, health = self.cluster.look(but)
        assert broken(self.receiver.history()) == []
        return at

    def strike(self, task: str, what: str, promise: float, fault: Callable[[Holder], int]) -> None:
        """Let a fault hit a task's leader, see how soon another leads it, and that all is well again."""
        holder, act = self.leader(task)
        at = fault(holder)
        self.note(f"{what}: taken over", at, self.successor(act).at, promise)
        self.settle()
