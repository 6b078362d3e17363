"""One server's agent, put together: it enrols, listens, looks, reports and tidies up."""

import asyncio
from http import HTTPStatus

import msgspec
import structlog

from rota.agent.caller import UnreachedError
from rota.agent.enrolling import NotEnrolledError, enrol
from rota.agent.fetching import Fetching
from rota.agent.files import delete
from rota.agent.inbox import Inbox
from rota.agent.listener import Answered, Listener
from rota.agent.memory import AgentMemory, Link
from rota.agent.monitor import Monitor
from rota.agent.orders import Orders
from rota.agent.reporter import Reporter
from rota.agent.settings import AgentSettings, read_invitation
from rota.agent.shelf import Shelf
from rota.agent.trust import Trust
from rota.agent.units import Units
from rota.errors import MalformedError, RotaError
from rota.tlog.addcheckpoint import PATH, SIZE_TYPE, parse_request
from rota.tlog.notes import Signature

AGAIN = 1.0  # seconds between two tries to enrol
SWEEP = 3600.0  # seconds between two looks for artifacts that nobody uses

log = structlog.get_logger("rota.agent")


class Agent:
    """Takes orders for one server and reports. Instances run on without it."""

    def __init__(self, settings: AgentSettings, units: Units) -> None:
        """Run instances as these units. Raises ConfigurationError for files that cannot be used."""
        self.settings = settings
        self.memory = AgentMemory(settings.directory)
        host = settings.address
        self._shelf = Shelf(self.memory, units, Fetching(self.memory, settings.name))
        orders = Orders(self.memory, units, self._shelf, host)
        self._inbox = Inbox(self.memory, orders, settings.name, self._changed)
        self._monitor = Monitor(self.memory, units, host, self._changed)
        self._reporter = Reporter(self.memory, self._monitor, self._inbox, settings.name)
        self._listener = Listener({"/messages": self._messages, PATH: self._add_checkpoint})
        self._trust: Trust | None = None

    async def run(self, ready: asyncio.Event | None = None) -> None:
        """Run until cancelled; `ready` is set once orders are taken. Raises NotEnrolledError, OSError."""
        try:
            link = await self._enrolled()
            self._trust = await asyncio.to_thread(self._trusted, link)
            await self._listener.open(self.settings.address, self.settings.port)
            log.info("agent runs", name=self.settings.name, address=self.settings.address, hub=link.url)
            if ready is not None:
                ready.set()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._monitor.run())
                tasks.create_task(self._reporter.run(self._trust))
                tasks.create_task(self._sweep())
        finally:
            await self._listener.close()

    async def _enrolled(self) -> Link:
        """Return how this server stands to its hub; an invitation that waits is accepted first."""
        path, told = self.memory.invitation, ""
        while path.exists():
            invitation = read_invitation(await asyncio.to_thread(path.read_bytes))
            try:
                link = await asyncio.to_thread(enrol, self.memory, self.settings, invitation)
            except UnreachedError as error:
                if str(error) != told:
                    log.warning("not enrolled yet", reason=str(error))
                told = str(error)
                await asyncio.sleep(AGAIN)
            except NotEnrolledError:
                if self.memory.link is None:
                    raise
                log.exception("the invitation is not good; this server stays enrolled as it was")
                delete(path)
            else:
                delete(path)
                return link
        if self.memory.link is None:
            raise NotEnrolledError(
                f"{self.settings.name} is not enrolled: on the hub `rota server enrol {self.settings.name}`, "
                "then the playbook enrol.yml"
            )
        return self.memory.link

    def _trusted(self, link: Link) -> Trust:
        return Trust(self.memory.directory / "log", link.log_key, self.memory.witness_key, self.settings.name)

    async def _sweep(self) -> None:
        while True:
            await self._shelf.sweep()
            await asyncio.sleep(SWEEP)

    def _changed(self) -> None:
        self._reporter.changed()

    async def _messages(self, body: bytes) -> Answered:
        """Answer the hub. What is begun goes on when the hub goes away, and is answered the next time."""
        try:
            answer = await asyncio.shield(asyncio.create_task(self._inbox.take(body, self._trust)))
        except (UnreachedError, OSError) as error:
            log.warning("an order waits", reason=str(error))
            return HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{error}\n".encode()
        return HTTPStatus.OK, "application/json", msgspec.json.encode(answer)

    async def _add_checkpoint(self, body: bytes) -> Answered:
        """Cosign a checkpoint of the hub's log, or say why not (c2sp.org/tlog-witness)."""
        assert self._trust is not None  # noqa: S101 - it is there before the listener
        try:
            decided = await asyncio.to_thread(self._trust.witness.add_checkpoint, parse_request(body))
        except MalformedError as error:
            return HTTPStatus.BAD_REQUEST, "text/plain", f"{error}\n".encode()
        except (RotaError, OSError) as error:
            log.warning("nothing cosigned", reason=str(error))
            return (
                HTTPStatus.SERVICE_UNAVAILABLE,
                "text/plain",
                b"this witness cannot keep what it would say\n",
            )
        if isinstance(decided, Signature):
            return HTTPStatus.OK, "text/plain", f"{decided}\n".encode()
        if decided.size is not None:
            return decided.status, SIZE_TYPE, f"{decided.size}\n".encode()
        return decided.status, "text/plain", f"{decided.reason}\n".encode()
