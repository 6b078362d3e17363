"""Times as the stores give them: the database's microseconds made into moments."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOT_YET = _EPOCH  # of a row that the database will date


def moment(microseconds: int) -> datetime:
    """Return whole microseconds since 1970 as a moment in UTC, exactly."""
    return _EPOCH + timedelta(microseconds=microseconds)


def moment_or_none(microseconds: int | None) -> datetime | None:
    """Return a moment, or None for what has not happened."""
    return None if microseconds is None else moment(microseconds)
