"""The seam to what takes requests for apps: HAProxy, or nothing, where each instance is reached by itself."""

from collections.abc import Sequence
from typing import Protocol

import structlog

from rota.routing.table import AppRoutes

log = structlog.get_logger("rota.routing")


class Proxy(Protocol):
    """Does what it is told, and says what it was seen to have done."""

    async def apply(self, wanted: Sequence[AppRoutes]) -> dict[str, str]:
        """Bring every app's requests where they should go.

        Return, for each app that could not be, the reason; the others do as
        wanted, which was read back. Raises RotaError where nothing can be said
        of any. Whatever fails, the last good state stays.
        """

    async def close(self) -> None:
        """Let go of what is open."""


class NoProxy:
    """Says where each instance listens, whenever that changes."""

    def __init__(self) -> None:
        """Have said nothing yet."""
        self._said: dict[str, tuple[str, ...]] = {}

    async def apply(self, wanted: Sequence[AppRoutes]) -> dict[str, str]:
        """Log the addresses of what is new."""
        for routes in wanted:
            live = tuple(f"http://{each.address}:{each.port}" for each in routes.targets if not each.standby)
            if live != self._said.get(routes.app, ()):
                log.info("app listens", app=routes.app, at=" ".join(live) or "nowhere")
            self._said[routes.app] = live
        return {}

    async def close(self) -> None:
        """Do nothing."""
