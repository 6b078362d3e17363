"""How many jobs a worker has in hand beyond those it runs: pure reckoning."""

AHEAD = 0.02  # seconds of work that are claimed ahead
MOST = 500  # jobs claimed at once


class Pace:
    """Claims ahead only what is finished in a moment: quick jobs in batches, slow ones as they begin."""

    def __init__(self, slots: int) -> None:
        """Run so many jobs at once."""
        self._slots = slots
        self._seconds: float | None = None  # that an attempt has taken of late, None while nobody knows

    def note(self, ended: int, seconds: float) -> None:
        """Take note of attempts that have ended, and how many seconds they took together."""
        if ended:
            average = seconds / ended
            self._seconds = average if self._seconds is None else (self._seconds + average) / 2

    def forget(self) -> None:
        """Know nothing: the queue is empty, and what comes next may be slow."""
        self._seconds = None

    def room(self, in_hand: int) -> int:
        """Return how many jobs to claim, with so many claimed already."""
        ahead = 0
        if self._seconds is not None:
            ahead = int(min(MOST, AHEAD * self._slots / max(self._seconds, 1e-9)))
        if ahead < self._slots:
            return max(0, self._slots - in_hand)
        # One batch runs while the next is being fetched.
        batch = min(MOST, self._slots + ahead)
        return batch if in_hand <= batch else 0
