"""`servers.local`: a server in this very process, for one machine without systemd.

It is enrolled as every other one is, by an invitation and over HTTP; only the operator who begins that is
this task. Instances are child processes, and start again with the hub.
"""

import asyncio
import contextlib
import re
import secrets

import msgspec
import structlog

from rota.acts.act import Act
from rota.acts.key import log_key
from rota.agent.agent import Agent
from rota.agent.children import ChildUnits, Told
from rota.agent.files import save
from rota.agent.settings import AgentSettings, Invitation
from rota.errors import ConfigurationError, RotaError
from rota.servers.enrolment import LASTS, hashed, primary_address, reached_at
from rota.settings import Settings
from rota.store.database import Database, Transaction
from rota.store.servers import Awaited, Servers
from rota.store.tlog import Outbox

DIRECTORY = "server"
LOOK = 0.5  # seconds between two looks for the hub's key, which `servers.link` publishes

log = structlog.get_logger("rota.servers")


class LocalServer:
    """Runs where `servers.local` says so; else it has nothing to do."""

    def __init__(self, settings: Settings, database: Database, told: Told | None = None) -> None:
        """Run a server of this hub; `told` is told each line that an instance writes."""
        self._settings = settings
        self._database = database
        self._told = told

    async def __call__(self, stopping: asyncio.Event) -> None:
        """Run until asked to stop; instances end with it."""
        if not self._settings.servers.local:
            await stopping.wait()
            return
        settings = AgentSettings(
            name=server_name(self._settings.name),
            address=primary_address(self._settings),
            data=str(self._settings.server.data / DIRECTORY),
            units="children",
        )
        units = ChildUnits(settings.directory / "units", self._told)
        await units.open()
        try:
            await self._run(Agent(settings, units), stopping)
        finally:
            await units.close()

    async def _run(self, agent: Agent, stopping: asyncio.Event) -> None:
        stop = asyncio.create_task(stopping.wait())
        work = asyncio.create_task(self._live(agent))
        try:
            await asyncio.wait({stop, work}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (stop, work):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work

    async def _live(self, agent: Agent) -> None:
        await self._invite(agent)
        try:
            await agent.run()
        except OSError as error:
            raise RotaError(
                f"no server can be at {agent.settings.address}:{agent.settings.port}: {error}: "
                "stop what listens there, or set servers.address (ROTA_SERVERS_ADDRESS) to another address"
            ) from error

    async def _invite(self, agent: Agent) -> None:
        """Await this server where the hub does not have it, and give it its invitation."""
        name, servers, link = agent.settings.name, Servers(self._database), agent.memory.link
        keys = await _published(servers)
        identity, row = await servers.identity(), await servers.find(name)
        if row is not None and row.state == "removed":
            raise ConfigurationError(
                f"{name} was removed: `rota server enrol {name}` brings it back, or set servers.local = false"
            )
        if row is not None and row.state == "enrolled" and link is not None and link.hub == identity.audience:
            # The same hub may listen at another address by now.
            agent.memory.set_link(msgspec.structs.replace(link, url=reached_at(self._settings)))
            return
        token = secrets.token_urlsafe(32)
        awaited = Awaited(name, agent.settings.address, hashed(token), LASTS, is_primary=True)
        invitation = Invitation(
            name=name,
            token=token,
            hub=identity.audience,
            url=reached_at(self._settings),
            hub_keys=keys,
            log_key=log_key(self._settings),
        )
        save(agent.memory.invitation, invitation)
        await self._database.write(lambda tx: _await(tx, awaited))
        log.info("this machine is a server", name=name, address=awaited.address)


async def _published(servers: Servers) -> list[str]:
    """Return the hub's keys, once its own task has published them."""
    while True:
        if keys := await servers.hub_keys():
            return keys
        await asyncio.sleep(LOOK)


async def _await(tx: Transaction, awaited: Awaited) -> None:
    await Servers.wait_for(tx, awaited)
    act = Act(
        kind="server.enrol",
        actor="task servers.local",
        subject=awaited.name,
        details={"address": awaited.address, "endpoint": ""},
    )
    await Outbox.add(tx, bytes(act))


def server_name(host: str) -> str:
    """Return a host's name as servers may be named."""
    return re.sub(r"[^a-z0-9-]+", "-", host.lower()).strip("-")[:63].strip("-") or "local"
