"""Who counts as lost."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from rota.servers.silence import Sign, judge, patience

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def test_who_missed_two_reports_is_lost_within_fifteen_seconds() -> None:
    assert patience(5) <= timedelta(seconds=15 - 2)
    found = judge([Sign("a", ago(11.5), lost=False), Sign("b", ago(1), lost=False)], LONG_AGO, NOW, 5)
    assert (found.lost, found.deaf) == (("a",), False)


def test_nobody_is_lost_while_the_hub_could_not_hear() -> None:
    signs = [Sign("a", ago(100), lost=False), Sign("b", ago(1), lost=False)]
    assert judge(signs, ago(5), NOW, 5).lost == ()


def test_a_hub_that_hears_nobody_is_deaf() -> None:
    signs = [Sign("a", ago(100), lost=False), Sign("b", ago(20), lost=False), Sign("c", ago(900), lost=True)]
    assert judge(signs, LONG_AGO, NOW, 5) == judge(signs, LONG_AGO, NOW, 5)
    assert judge(signs, LONG_AGO, NOW, 5).deaf


def test_the_only_server_may_be_lost() -> None:
    found = judge([Sign("a", None, lost=False)], LONG_AGO, NOW, 5)
    assert (found.lost, found.deaf) == (("a",), False)


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=8), st.integers(0, 60))
def test_the_lost_are_silent_and_not_all(ages: list[tuple[int, bool]], since: int) -> None:
    signs = [Sign(str(n), ago(age), lost) for n, (age, lost) in enumerate(ages)]
    found = judge(signs, ago(since), NOW, 5)
    live = [sign for sign in signs if not sign.lost]
    assert not (found.deaf and found.lost)
    assert all(
        min(since, (NOW - sign.at).total_seconds()) > 10
        for sign in live
        if sign.name in found.lost and sign.at
    )
    assert len(live) <= 1 or len(found.lost) < len(live)
