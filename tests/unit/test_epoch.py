"""What a receiver of effects accepts."""

import pytest

from rota.coordination.epoch import Epoch, EpochGate, Fence
from rota.errors import FencedError


def test_the_generation_outranks_every_epoch() -> None:
    assert Epoch(2, 1) > Epoch(1, 999)
    assert Epoch(1, 2) > Epoch(1, 1)


def test_the_same_epoch_is_admitted_again_and_a_newer_one_too() -> None:
    gate = EpochGate()
    for pair in ((1, 4), (1, 4), (1, 5), (2, 1)):
        gate.admit(Fence("t", *pair))


@pytest.mark.parametrize("older", [(1, 4), (0, 99)])
def test_an_older_pair_is_refused_and_both_are_named(older: tuple[int, int]) -> None:
    gate = EpochGate()
    gate.admit(Fence("t", 1, 5))
    with pytest.raises(FencedError) as caught:
        gate.admit(Fence("t", *older))
    assert str(caught.value) == (
        f"t: generation {older[0]}, epoch {older[1]} is older than generation 1, epoch 5: "
        "another process leads this task now"
    )


def test_a_refused_pair_leaves_the_gate_as_it_was() -> None:
    gate = EpochGate()
    gate.admit(Fence("t", 1, 5))
    with pytest.raises(FencedError):
        gate.admit(Fence("t", 1, 4))
    gate.admit(Fence("t", 1, 5))


def test_tasks_do_not_fence_each_other() -> None:
    gate = EpochGate()
    gate.admit(Fence("t", 9, 9))
    gate.admit(Fence("u", 1, 1))
