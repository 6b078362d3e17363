"""The hub's start and stop, as the server tells the app of them."""

from collections.abc import Mapping
from typing import Any

from rota.hub import Hub


class Lifespan:
    """Falcon middleware: starts the hub with the server and stops it after the last request."""

    def __init__(self, hub: Hub) -> None:
        """Start and stop this hub."""
        self._hub = hub

    async def process_startup(self, scope: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        """Begin the background work; does not wait for the database."""
        self._hub.start()

    async def process_shutdown(self, scope: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        """End what is left."""
        await self._hub.stop()
