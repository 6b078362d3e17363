"""When a daily task is due: pure reckoning in UTC."""

from datetime import datetime, timedelta

REST = timedelta(minutes=15)  # from the start of one that failed to the next try


def due(clock: str, last: datetime | None, now: datetime) -> bool:
    """Tell whether a task scheduled daily at `clock` (HH:MM, UTC) should begin.

    It is due once the newest scheduled moment lies behind us and it has not
    begun since: a moment that was missed is made up for, and a new hub begins
    with a first execution.
    """
    if not clock:
        return False
    return last is None or last < _newest(clock, now)


def resting(failed: datetime | None, now: datetime) -> bool:
    """Tell whether one failed so lately that the next try waits."""
    return failed is not None and now - failed < REST


def _newest(clock: str, now: datetime) -> datetime:
    hour, minute = (int(part) for part in clock.split(":"))
    today = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return today if today <= now else today - timedelta(days=1)
