"""`configuration.key`: says to which key values are sealed: the one that the primary's worker opens with."""

from rota.configuration.opening import Opener
from rota.coordination.leader import Term

AGAIN = 3600.0  # seconds until it is said again


class TellKey:
    """Tells the public half of the key that this process opens with."""

    def __init__(self, opener: Opener) -> None:
        """Tell this one's."""
        self._opener = opener

    async def __call__(self, term: Term) -> None:
        """Tell it at the beginning, and now and then, until asked to stop."""
        while True:
            await self._opener.tell()
            if await term.pause(AGAIN):
                return
