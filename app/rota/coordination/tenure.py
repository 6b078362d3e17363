"""How long a holder may trust its locks: pure rules on a monotonic clock.

    probe every 2 s, answer within 3 s  ->  trust for 5 s  <  server frees at 8 s

A holder trusts its locks for TRUST after the *start* of the last good probe.
The server frees them EXPIRY after the last statement it saw, which is no
earlier. So a holder that is cut off has stopped before a successor can start.
"""

ROUND = 2.0  # seconds between probes, and between attempts to take a lock
ANSWER = 3.0  # seconds within which the database must answer on the lock connection
TRUST = 5.0  # seconds that a good probe is worth
EXPIRY = 8.0  # seconds of silence after which the server ends the lock session
JITTER = 0.2  # share by which a round may be shorter, so that processes do not march in step
STOP = 0.5  # seconds that a task has to end by itself when asked to
GONE = 0.2  # seconds that a cancelled task has to be gone before we go on without it


class Tenure:
    """One lock session's trust. Owned by the task that probes; read by everyone."""

    def __init__(self) -> None:
        """Start without trust."""
        self._until: float | None = None

    def renew(self, probed_at: float) -> None:
        """Note a good probe that *started* at this time."""
        self._until = max(self._until or 0.0, probed_at + TRUST)

    def end(self) -> None:
        """Note that the session is gone."""
        self._until = None

    def trusted(self, now: float) -> bool:
        """Tell whether the holder may still act at this time."""
        return self._until is not None and now < self._until

    def left(self, now: float) -> float:
        """Return the seconds of trust left, 0 when there is none."""
        return max(0.0, self._until - now) if self._until is not None else 0.0
