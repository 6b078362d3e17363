"""Commands that open the database themselves, beside whatever serves."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rota import wiring
from rota.logging import configure
from rota.settings import Settings
from rota.store.database import Database

T = TypeVar("T")


def with_database(settings: Settings, work: Callable[[Database], Awaitable[T]]) -> T:
    """Open the database, migrating it if need be, and return what the work on it gives.

    A command speaks by what it prints: only warnings are logged.
    """

    async def opened() -> T:
        wiring.prepare_directories(settings)
        database = wiring.make_database(settings)
        try:
            await database.open()
            return await work(database)
        finally:
            await database.close()

    configure("warning")
    os.umask(0o077)
    return asyncio.run(opened())
