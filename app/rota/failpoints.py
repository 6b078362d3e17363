"""Places at which a test ends this process, as a crash would. Without ROTA_FAILPOINTS they do nothing."""

import os
import signal

VARIABLE = "ROTA_FAILPOINTS"  # names with commas between
_NAMES = frozenset(os.environ.get(VARIABLE, "").split(",")) - {""}


def pass_by(name: str) -> None:
    """Go on, or end at once where this place is named."""
    if name in _NAMES:
        os.kill(os.getpid(), signal.SIGKILL)
