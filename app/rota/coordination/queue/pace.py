"""How many jobs a worker has in hand beyond those it runs: pure reckoning."""

AHEAD = 0.02  # seconds of work claimed ahead at the present rate
MOST = 500  # jobs claimed at once


class Pace:
    """Claims ahead only what is finished in a moment: quick jobs in batches, slow ones as they begin."""

    def __init__(self, slots: int) -> None:
        """Run so many jobs at once."""
        self._slots = slots
        self._rate = 0.0  # jobs finished a second, of late

    def note(self, finished: int, seconds: float) -> None:
        """Take note of what was finished since the last time."""
        if seconds > 0:
            self._rate = (self._rate + finished / seconds) / 2

    def idle(self) -> None:
        """Forget the rate: the queue is empty, and what comes next may be slow."""
        self._rate = 0.0

    def room(self, in_hand: int) -> int:
        """Return how many jobs to claim, with so many claimed already."""
        ahead = int(self._rate * AHEAD)
        if ahead == 0:
            return max(0, self._slots - in_hand)
        batch = min(MOST, self._slots + ahead)
        # One batch runs while the next is being fetched.
        return batch if in_hand <= batch else 0
