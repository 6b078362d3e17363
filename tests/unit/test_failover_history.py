"""The rules that every history of acts must keep: each is shown to find what breaks it."""

import json
from dataclasses import replace

import pytest
from tests.cluster import history
from tests.cluster.history import Act, broken
from tests.cluster.receiver import received

from rota.coordination.epoch import EpochGate

TASK = "failover.probe"


def act(epoch: int, holder: str, kind: str = "act", *, accepted: bool = True, generation: int = 1) -> Act:
    return Act(
        task=TASK,
        generation=generation,
        epoch=epoch,
        holder=holder,
        kind=kind,
        number=1,
        at=1,
        accepted=accepted,
    )


GOOD = [
    act(1, "a", "start"),
    act(1, "a"),
    act(1, "a", "late"),
    act(2, "b", "start"),
    act(1, "a", "late", accepted=False),
    act(2, "b"),
    act(2, "b", "stop"),
    act(1, "c", "start", generation=2),
]


def test_a_good_history_breaks_nothing() -> None:
    assert broken(GOOD) == []
    assert broken([]) == []


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ([act(1, "d", generation=2)], "c and d both acted under generation 2, epoch 1"),
        ([act(2, "b", "late")], "after its stop"),
        ([act(3, "a", "late")], "was accepted after generation 2, epoch 1"),
        ([act(3, "a", accepted=False)], "a trusted generation 1, epoch 3 after generation 2, epoch 1"),
        ([act(1, "c", accepted=False, generation=2)], "the newest leader's act"),
        ([act(1, "c", "start", generation=2)], "started under generation 2, epoch 1 after"),
        ([act(3, "d", "start", accepted=False)], "started under generation 1, epoch 3 after"),
    ],
)
def test_what_breaks_a_rule_is_found(more: list[Act], found: str) -> None:
    faults = broken([*GOOD, *more])
    assert any(found in fault for fault in faults), faults
    assert all(fault.startswith(f"{TASK}: ") for fault in faults)


def test_one_task_says_nothing_of_another() -> None:
    other = [Act(**{**vars(one), "task": "failover.web", "holder": f"web-{one.holder}"}) for one in GOOD]
    assert broken([one for pair in zip(GOOD, other, strict=True) for one in pair]) == []


def test_the_receiver_refuses_what_is_older_than_what_it_has_seen() -> None:
    gate = EpochGate()
    told = [{"task": TASK, "generation": g, "epoch": e} for g, e in ((1, 1), (1, 2), (1, 1), (2, 1), (1, 9))]
    came = [
        received(gate, json.dumps({**one, "holder": "a", "kind": "late", "number": 1}).encode(), at)
        for at, one in enumerate(told)
    ]
    assert [one.accepted for one in came] == [True, True, False, True, False]
    assert [one.at for one in came] == [0, 1, 2, 3, 4]
    assert Act.from_json(came[2].to_json()) == came[2]


def test_who_led_before_and_after() -> None:
    first = GOOD[1]
    assert history.newest(GOOD, TASK) == GOOD[-1]
    assert history.newest(GOOD[:3], TASK) == GOOD[2]
    assert history.newest(GOOD, "failover.web") is None
    assert history.successor(GOOD, first) == GOOD[3]
    assert history.successor(GOOD, GOOD[-1]) is None
    assert history.last([first, replace(first, at=9), replace(first, at=8)], first).at == 9
    assert history.refused(GOOD, first) == [GOOD[4]]
