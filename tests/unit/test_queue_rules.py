"""The pure rules of the work queue: batches, waits, verdicts, texts."""

from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.coordination.queue.job import ERROR, Claimed, readable
from rota.coordination.queue.kinds import (
    LEASE,
    Job,
    Kind,
    Kinds,
    after_failure,
    backoff,
    without_trying,
)
from rota.coordination.queue.pace import MOST, Pace
from rota.coordination.queue.worker import LEAVE, RENEWALS, TICK
from rota.coordination.residents import LEAVE as RESIDENTS_LEAVE
from rota.tasks.kinds import every_kind
from rota.web.server import GRACEFUL


async def nothing(_: Job) -> None:
    pass


MAIL = Kind("mail", nothing)


def claimed(attempts: int, kind: str = "mail") -> Claimed:
    return Claimed(7, kind, "{}", attempts)


class TestPace:
    def test_nothing_is_claimed_ahead_while_nobody_knows_how_quick_jobs_are(self) -> None:
        assert [Pace(16).room(in_hand) for in_hand in (0, 10, 16, 20)] == [16, 6, 0, 0]

    def test_slow_jobs_are_claimed_as_they_begin(self) -> None:
        pace = Pace(16)
        pace.note(10, 10 * 0.1)
        assert [pace.room(in_hand) for in_hand in (0, 15, 16)] == [16, 1, 0]

    def test_quick_jobs_are_claimed_in_batches_one_ahead_of_that_which_runs(self) -> None:
        pace = Pace(16)
        pace.note(100, 100 * 0.00001)
        assert [pace.room(in_hand) for in_hand in (0, MOST, MOST + 1)] == [MOST, MOST, 0]

    def test_what_was_known_is_forgotten_with_an_empty_queue(self) -> None:
        pace = Pace(16)
        pace.note(100, 0.001)
        pace.forget()
        assert pace.room(0) == 16

    @given(st.lists(st.tuples(st.integers(0, 1000), st.floats(0, 1e6))), st.integers(0, 2000))
    def test_a_claim_is_never_larger_than_the_most(
        self, noted: list[tuple[int, float]], in_hand: int
    ) -> None:
        pace = Pace(16)
        for each in noted:
            pace.note(*each)
        assert 0 <= pace.room(in_hand) <= MOST


class TestFailure:
    def test_waits_double_up_to_an_hour(self) -> None:
        waits = [backoff(attempts) for attempts in range(1, 11)]
        assert waits == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]

    @given(st.integers(1, 7))
    def test_before_the_eighth_attempt_another_follows(self, attempts: int) -> None:
        back = after_failure(MAIL, claimed(attempts), "no route")
        assert back.delay is not None
        assert 0.85 * backoff(attempts) <= back.delay <= 1.15 * backoff(attempts)
        assert (back.id, back.attempts, back.error, back.dead) == (7, attempts, "no route", False)

    def test_after_the_eighth_attempt_the_job_is_dead(self) -> None:
        assert after_failure(MAIL, claimed(8), "no route").dead

    def test_a_kind_may_have_attempts_of_its_own(self) -> None:
        assert after_failure(Kind("once", nothing, attempts=1), claimed(1), "no").dead

    def test_a_job_that_was_claimed_too_often_is_not_tried(self) -> None:
        kinds = Kinds.of([MAIL], primary=False)
        assert without_trying(kinds, claimed(8)) is None
        verdict = without_trying(kinds, claimed(9))
        assert verdict is not None
        assert (verdict.dead, verdict.counted) == (True, False)

    def test_a_kind_that_nobody_knows_is_not_tried(self) -> None:
        verdict = without_trying(Kinds.of([], primary=True), claimed(1))
        assert verdict is not None
        assert verdict.dead


class TestKinds:
    def test_those_of_the_primary_are_barred_elsewhere(self) -> None:
        both = [MAIL, Kind("build", nothing, primary=True)]
        here, there = Kinds.of(both, primary=True), Kinds.of(both, primary=False)
        assert (set(here.known), here.barred) == ({"mail", "build"}, frozenset())
        assert (set(there.known), there.barred) == ({"mail"}, frozenset({"build"}))

    def test_leases_that_differ_are_named(self) -> None:
        kinds = Kinds.of([MAIL, Kind("deploy.step", nothing, lease=15.0)], primary=False)
        assert kinds.leases == '{"deploy.step": 15.0}'
        assert kinds.shortest_lease == 15.0
        assert Kinds.of([], primary=False).shortest_lease == LEASE

    @pytest.mark.parametrize("name", ["", "Mail", "a b", "a.", ".a", 'a"b', "a-b", "1a", "a..b"])
    def test_a_name_that_could_not_stand_in_a_metric_is_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match="a kind's name is such as"):
            Kind(name, nothing)

    def test_every_kind_of_the_program_has_a_name_of_its_own(self) -> None:
        kinds = every_kind(Mock(), Mock())
        assert len({kind.name for kind in kinds}) == len(kinds)


@given(st.text(st.characters() | st.just("\0") | st.just("\ud800"), max_size=9000))
def test_an_error_can_always_be_kept(error: str) -> None:
    kept = readable(error)
    assert "\0" not in kept
    assert len(kept) <= ERROR
    kept.encode()


def test_a_long_error_keeps_its_beginning_and_its_end() -> None:
    kept = readable("begin" + "x" * 9000 + "end")
    assert kept.startswith("begin")
    assert kept.endswith("end")
    assert " … " in kept


def test_the_times_fit_into_one_another() -> None:
    assert min(kind.lease for kind in every_kind(Mock(), Mock())) / RENEWALS > TICK
    assert LEAVE < RESIDENTS_LEAVE < GRACEFUL
