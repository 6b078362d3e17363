"""The agent of a server as a program, and what its operator may ask of it."""

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import structlog

from rota.agent.agent import Agent
from rota.agent.children import ChildUnits
from rota.agent.files import write
from rota.agent.memory import AgentMemory
from rota.agent.settings import AgentSettings, read_invitation, read_settings
from rota.agent.systemd import SystemdUnits
from rota.drivers.systemd import Notifier, keep_watchdog
from rota.errors import ConfigurationError, RotaError
from rota.logging import configure

SETTINGS = Path("/etc/rota/agent.json")

log = structlog.get_logger("rota.agent")


async def run(settings: AgentSettings) -> None:
    """Run until SIGTERM or SIGINT."""
    notifier = Notifier.from_environment()
    children = ChildUnits(settings.directory / "units") if settings.units == "children" else None
    if children is not None:
        await children.open()
    agent, ready = Agent(settings, children or SystemdUnits()), asyncio.Event()
    running = asyncio.create_task(agent.run(ready))
    # It is up, and waits where its hub cannot be reached yet.
    notifier.send("READY=1")
    watchdog = asyncio.create_task(keep_watchdog(notifier))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await running
    finally:
        notifier.send("STOPPING=1")
        watchdog.cancel()
        if children is not None:
            await children.close()


def enrol(settings: AgentSettings, invitation: Path) -> None:
    """Keep an invitation for the agent, which accepts it when it starts."""
    data = sys.stdin.buffer.read() if str(invitation) == "-" else invitation.read_bytes()
    found = read_invitation(data)
    if found.name != settings.name:
        raise ConfigurationError(f"the invitation is for {found.name}, and this server is {settings.name}")
    write(AgentMemory(settings.directory).invitation, data)


def main() -> None:
    """Run the agent, or do what is asked for."""
    parser = argparse.ArgumentParser(prog="rota-agent", description="The agent of a server.")
    parser.add_argument(
        "--settings", type=Path, default=SETTINGS, help="its settings, as the kit writes them"
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    verbs.add_parser("run", help="run the agent (the default)")
    enrols = verbs.add_parser("enrol", help="take an invitation; the agent accepts it when it starts")
    enrols.add_argument("invitation", type=Path, help="a file, or - for standard input")
    verbs.add_parser("rotate", help="have the agent change its key with its next report")
    verbs.add_parser("key", help="print the server's public key, which is made where it is missing")
    options = parser.parse_args()
    try:
        settings = read_settings(options.settings)
        configure(settings.log_level)
        match options.verb:
            case "enrol":
                enrol(settings, options.invitation)
            case "rotate":
                sys.stdout.write(AgentMemory(settings.directory).make_next_key().public + "\n")
            case "key":
                sys.stdout.write(AgentMemory(settings.directory).key.public + "\n")
            case _:
                asyncio.run(run(settings))
    except RotaError as error:
        sys.stderr.write(f"rota-agent: {error}\n")
        raise SystemExit(error.exit_code) from error
    except OSError as error:
        sys.stderr.write(f"rota-agent: {error}\n")
        raise SystemExit(1) from error
