"""When a daily task is due."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.tasks.schedule import REST, due, resting


def at(day: int, hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2026, 3, day, hour, minute, second, tzinfo=UTC)


@pytest.mark.parametrize(
    ("clock", "last", "now", "expected"),
    [
        pytest.param("", None, at(2, 3), False, id="never, where nothing is set"),
        pytest.param("03:15", None, at(2, 1), True, id="a new hub begins at once"),
        pytest.param("03:15", at(1, 3, 15), at(2, 3, 14, 59), False, id="a second too early"),
        pytest.param("03:15", at(1, 3, 15), at(2, 3, 15), True, id="on the minute"),
        pytest.param("03:15", at(2, 3, 15), at(2, 3, 15), False, id="it has just begun"),
        pytest.param("03:15", at(2, 3, 15, 1), at(2, 23, 59), False, id="once a day"),
        pytest.param("03:15", at(1, 2), at(1, 23), True, id="missed today, made up for"),
        pytest.param("03:15", at(1, 2), at(9, 2), True, id="missed for a week, once"),
        pytest.param("00:00", at(1, 23, 59), at(2, 0), True, id="midnight"),
        pytest.param("23:59", at(1, 23, 59), at(2, 23, 58), False, id="the last minute of the day"),
    ],
)
def test_due(clock: str, last: datetime | None, now: datetime, expected: bool) -> None:  # noqa: FBT001
    assert due(clock, last, now) is expected


def test_a_year_of_looks_makes_one_a_day() -> None:
    last, begun, now = None, [], at(1, 0)
    for _ in range(365 * 24 * 2):
        if due("03:15", last, now):
            last = now
            begun.append(now)
        now += timedelta(minutes=30)
    assert len(begun) == 366  # the first at once, then one each day
    assert {moment.time().isoformat("minutes") for moment in begun[1:]} == {"03:30"}


def test_after_a_failure_the_next_try_waits_a_while() -> None:
    failed = datetime(2026, 11, 30, 3, 15, tzinfo=UTC)
    assert not resting(None, failed)
    assert resting(failed, failed)
    assert resting(failed, failed + REST - timedelta(seconds=1))
    assert not resting(failed, failed + REST)
