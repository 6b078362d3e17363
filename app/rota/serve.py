"""`rota serve`: one process, from its settings to its exit code."""

import asyncio
import os
import signal

import structlog
import uvloop

from rota import wiring
from rota.drivers.systemd import Notifier, keep_watchdog, sockets_passed
from rota.hub import Hub
from rota.settings import Settings
from rota.store.one_process import claim_one_process

log = structlog.get_logger("rota.serve")


def serve(settings: Settings) -> int:
    """Run until told to stop; return the exit code. Raises RotaError for what a restart cannot mend."""
    os.umask(0o077)
    wiring.prepare_directories(settings)
    if settings.sqlite:
        # Held by this process, and by the worker it forks, until both have ended.
        claim_one_process(settings.sqlite_path.with_suffix(".lock"))
    notifier = Notifier.from_environment()
    passed = sockets_passed()
    if settings.address or passed:
        from rota.web.listener import listen
        from rota.web.server import HubServer

        return HubServer(settings, notifier, None if passed else listen(settings.address)).serve()
    return uvloop.run(_alone(wiring.make_hub(settings), notifier))


async def _alone(hub: Hub, notifier: Notifier) -> int:
    """Run a worker that serves nothing: the same start and stop, without a server."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    hub.start()
    background = [asyncio.create_task(keep_watchdog(notifier)), asyncio.create_task(_announce(hub, notifier))]
    waiting = {asyncio.create_task(stop.wait()), asyncio.create_task(hub.failed.wait())}
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    notifier.send("STOPPING=1")
    for task in (*background, *waiting):
        task.cancel()
    await hub.stop()
    return hub.exit_code


async def _announce(hub: Hub, notifier: Notifier) -> None:
    """Tell systemd that we are ready, once the database was tried."""
    await hub.settled.wait()
    if not hub.failed.is_set():
        log.info("running", roles=list(hub.health.roles), serving="nothing")
        notifier.send("READY=1")
