"""`configuration.key`: says to which key values are sealed, once in each worker of the primary."""

from rota.configuration.opening import Opener
from rota.coordination.leader import Term


class TellKey:
    """Tells the public half of the key that this process opens with."""

    def __init__(self, opener: Opener) -> None:
        """Tell this one's."""
        self._opener = opener

    async def __call__(self, _: Term) -> None:
        """Tell it."""
        await self._opener.tell()
