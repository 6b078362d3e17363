"""Epochs: the number that makes an old leader's late effects refusable.

A lock alone does not exclude: a holder that was frozen does not know that it
lost the lock. So each gain of a lock raises the task's epoch in the database,
every effect carries (generation, epoch), and whoever receives the effect
refuses an older pair than it has seen.
"""

from typing import NamedTuple

from rota.errors import FencedError


class Epoch(NamedTuple):
    """Compares by generation first: a restore from backup outranks every epoch before it."""

    generation: int
    epoch: int


class Fence(NamedTuple):
    """What a led task shows with every effect: under which gain of which lock it acts."""

    task: str
    generation: int
    epoch: int

    @property
    def pair(self) -> Epoch:
        """The part that a receiver compares."""
        return Epoch(self.generation, self.epoch)


class EpochGate:
    """A receiver's memory: per task, the highest epoch it has accepted."""

    def __init__(self) -> None:
        """Start having seen nothing."""
        self._highest: dict[str, Epoch] = {}

    def admit(self, fence: Fence) -> None:
        """Accept the effect, or raise FencedError where a newer leader was seen."""
        highest = self._highest.get(fence.task, fence.pair)
        if fence.pair < highest:
            raise FencedError(
                f"{fence.task}: generation {fence.generation}, epoch {fence.epoch} is older than "
                f"generation {highest.generation}, epoch {highest.epoch}: another process leads this task now"
            )
        self._highest[fence.task] = fence.pair
