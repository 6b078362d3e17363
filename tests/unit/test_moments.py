"""Times and sizes, as they are kept and as they are shown."""

from datetime import UTC, datetime

import pytest

from rota.store.moments import moment, moment_or_none
from rota.web.pages import size, when


def test_microseconds_are_kept_exactly() -> None:
    for count in (0, 1, 999_999, 1_764_531_484_123_457, 253_402_300_799_999_999):
        delta = moment(count) - datetime(1970, 1, 1, tzinfo=UTC)
        assert delta.days * 86_400_000_000 + delta.seconds * 1_000_000 + delta.microseconds == count


def test_what_has_not_happened_has_no_moment() -> None:
    assert moment_or_none(None) is None
    assert moment_or_none(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert (when(None), when(moment(0))) == ("—", "1970-01-01 00:00:00 UTC")


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, "—"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1 << 20, "1.0 MiB"),
        (5 << 40, "5120.0 GiB"),
    ],
)
def test_sizes_are_shown_in_steps_of_1024(count: int | None, shown: str) -> None:
    assert size(count) == shown
