"""Commands that open the database themselves, beside whatever serves."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from rota import wiring
from rota.errors import ConfigurationError
from rota.logging import configure
from rota.settings import Settings
from rota.store.database import Database

T = TypeVar("T")
_STOPS = (signal.SIGTERM, signal.SIGHUP)


def with_database(settings: Settings, work: Callable[[Database], Awaitable[T]], *, begin: bool = False) -> T:
    """Open the database, migrating it if need be, and return what the work on it gives.

    Only with `begin` may it be a new hub's; else raises ConfigurationError where
    there is none. A command speaks by what it prints: only warnings are logged.
    """
    if settings.sqlite and not begin and not settings.sqlite_path.exists():
        if settings.server.data.exists():
            wiring.prepare_directories(settings)  # which may have more to say
        raise ConfigurationError(
            f"there is no hub in {settings.sqlite_path.parent.resolve()}: say with --data where it is; "
            "`rota serve` begins one"
        )

    async def opened() -> T:
        _end_gently()
        wiring.prepare_directories(settings)
        database = wiring.make_database(settings)
        try:
            await database.open()
            return await work(database)
        finally:
            await database.close()

    configure("warning")
    os.umask(0o077)
    before = {number: signal.getsignal(number) for number in _STOPS}
    try:
        return asyncio.run(opened())
    except asyncio.CancelledError:
        raise click.Abort from None
    finally:  # the loop leaves the default behind, and the caller may have had handlers of its own
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_gently() -> None:
    """Let the command tidy up when it is told to stop, or its terminal closes, as on Ctrl-C."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine runs in one
    for number in _STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup sets it
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
