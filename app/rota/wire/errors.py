"""What can be wrong with a message. Each says so in a sentence that both sides log."""

from rota.errors import RotaError


class WireError(RotaError):
    """A message is refused. `code` names the rule that it broke, for programs and metrics."""

    code = "malformed"


class UnsignedError(WireError):
    """Whoever sent it did not sign it with a key that may say this."""

    code = "signature"


class IllegalError(WireError):
    """Nobody may say this here and now."""

    code = "illegal"


class ProtocolError(WireError):
    """The two sides speak different protocols."""

    code = "protocol"


class AudienceError(WireError):
    """It is meant for somebody else."""

    code = "audience"


class SessionError(WireError):
    """It belongs to another session: an enrolment lies between."""

    code = "session"


class StaleError(WireError):
    """It was sent before something that has been accepted already."""

    code = "stale"


class EpochError(WireError):
    """It comes from a leader that another one has followed."""

    code = "epoch"


class GapError(WireError):
    """Something that was sent before it has not arrived; `expected` is the number to go on with."""

    code = "gap"

    def __init__(self, expected: int) -> None:
        """Say which message must come next."""
        super().__init__(f"messages are missing: number {expected} comes next")
        self.expected = expected
