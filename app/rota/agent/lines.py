"""`python -m rota.agent.lines`: reads what a server's instances write, and brings it to the primary.

It shares the agent's settings and its key, and nothing else: each runs without
the other, and neither's restart breaks an instance's pipe.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

from rota.agent.caller import call
from rota.agent.memory import AgentMemory
from rota.agent.program import SETTINGS
from rota.agent.settings import AgentSettings, read_settings
from rota.drivers.systemd import Notifier
from rota.errors import RotaError
from rota.logging import configure
from rota.logs.reader import Reader
from rota.logs.shipping import Shipping, body_hash, now
from rota.wire.request import HEADER, RequestStatement, header

FIFOS = Path("/run/rota-log")
SPOOLS = Path("/var/lib/rota-log")
TARGET = "/logs"
AWAY = 503  # as if the primary had said so


async def run(settings: AgentSettings, fifos: Path, spools: Path) -> None:
    """Read and ship until SIGTERM or SIGINT."""
    reader = Reader(fifos, spools)
    work = [
        asyncio.create_task(reader.run(), name="logs.read"),
        asyncio.create_task(Shipping(reader, Sender(settings)).run(), name="logs.ship"),
    ]
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, lambda: [task.cancel() for task in work])
    Notifier.from_environment().send("READY=1")
    done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
    for task in work:
        task.cancel()
    await asyncio.gather(*work, return_exceptions=True)
    with contextlib.suppress(asyncio.CancelledError):
        for task in done:
            task.result()


class Sender:
    """Sends parcels in the name of this server. Before its enrolment nothing is sent, and nothing lost."""

    def __init__(self, settings: AgentSettings) -> None:
        """Take key and hub from what the agent keeps."""
        self._settings = settings

    async def __call__(self, body: bytes) -> int:
        """Send a body; return the status of the answer."""
        return await asyncio.to_thread(self._send, body)

    def _send(self, body: bytes) -> int:
        memory = AgentMemory(self._settings.directory)
        link = memory.link
        if link is None:
            return AWAY
        statement = RequestStatement(
            audience=link.hub,
            sender=self._settings.name,
            method="POST",
            target=TARGET,
            body=body_hash(body),
            issued_at=now(),
        )
        signed = {HEADER: header(statement, memory.key), "Content-Type": "application/json"}
        try:
            return call(link.url, "POST", TARGET, body, signed)[0]
        except RotaError:
            return AWAY


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="rota-log", description="The reader of instances' output.")
    parser.add_argument("--settings", type=Path, default=SETTINGS, help="the agent's settings")
    parser.add_argument("--fifos", type=Path, default=FIFOS, help="where systemd holds the FIFOs")
    parser.add_argument("--spools", type=Path, default=SPOOLS, help="where output waits for the primary")
    options = parser.parse_args()
    try:
        settings = read_settings(options.settings)
        configure(settings.log_level)
        asyncio.run(run(settings, options.fifos, options.spools))
    except RotaError as error:
        sys.stderr.write(f"rota-log: {error}\n")
        raise SystemExit(error.exit_code) from error


if __name__ == "__main__":
    main()
