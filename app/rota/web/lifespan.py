"""The hub's start and stop, as the server tells the app of them."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from rota.hub import Hub

MOMENT = 5.0  # seconds


class Lifespan:
    """Falcon middleware: starts the hub with the server and stops it after the last request."""

    def __init__(self, hub: Hub) -> None:
        """Start and stop this hub."""
        self._hub = hub

    async def process_startup(self, scope: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        """Begin the background work, and give the database a moment to answer.

        Requests that wait at the socket meanwhile would find no database. Where it
        stays away the process serves all the same, and says so.
        """
        self._hub.start()
        with suppress(TimeoutError):
            async with asyncio.timeout(MOMENT):
                await self._hub.settled.wait()

    async def process_shutdown(self, scope: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        """End what is left."""
        await self._hub.stop()
