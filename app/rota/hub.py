"""One process of the hub: its start, its state, and its stop, whatever serves it."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field, replace

import structlog

from rota import __version__
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import Live
from rota.coordination.leader import Leader
from rota.coordination.queue.queue import Queue
from rota.coordination.queue.watch import Watch
from rota.coordination.queue.worker import Tally
from rota.coordination.residents import Residents
from rota.errors import EXIT_FAILED, ConfigurationError, RotaError, UnreachableError
from rota.health import DatabaseHealth, Health, TlogHealth
from rota.hooks.courier import Tries
from rota.roles import in_order
from rota.settings import Settings
from rota.store.database import Database, Pulse
from rota.store.jobs import Count
from rota.store.migrations import program_schema, refuse_if_too_new
from rota.tlog.log import Tlog
from rota.tlog.publication import Publication

REFRESH = 2.0  # seconds between two looks at the database
LATE = 2.0  # seconds after which the database counts as not answering

TOPIC = "hub"  # of the events that pages listen to

log = structlog.get_logger("rota.hub")


@dataclass(frozen=True)
class Coordination:
    """What makes one hub of several processes. What this one did: `tally` has jobs, `tries` webhooks."""

    leader: Leader
    residents: Residents
    bus: Bus
    queue: Queue
    watch: Watch[list[Count]]
    deliveries: Watch[dict[str, int]]
    tally: Tally = field(default_factory=Counter)
    tries: Tries = field(default_factory=Tries)


class Hub:
    """Starts without waiting for the database, keeps trying, and stops in order.

    `settled` is set once the database was tried, whatever came of it; `failed`
    when the process must exit, with the reason in `failure`; `draining` when it
    has been told to stop.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        together: Coordination,
        tlog: Tlog,
        tasks: tuple[str, ...],
    ) -> None:
        """Put a process together; nothing runs until `start`."""
        self.settings = settings
        self.database = database
        self.together = together
        self.leader = together.leader
        self.tlog = tlog
        self.draining = asyncio.Event()
        self.settled = asyncio.Event()
        self.failed = asyncio.Event()
        self.failure: BaseException | None = None
        self._health = Health(
            name=settings.name,
            version=__version__,
            roles=tuple(in_order(settings.roles)),
            primary=settings.server.primary,
            tasks=tasks,
            residents=tuple(together.residents.names()),
            database=DatabaseHealth(kind="sqlite" if settings.sqlite else "postgresql"),
            started_at=time.time_ns() // 1000,
        )
        self._told: object = None  # what pages were last told
        self._background: asyncio.Task[None] | None = None
        self._pulse: asyncio.Task[Pulse] | None = None
        self._look_of_tlog: asyncio.Task[TlogHealth] | None = None

    @property
    def health(self) -> Health:
        """The newest view: the database's part is at most a few seconds old, the rest is of now."""
        return replace(
            self._health,
            leading=tuple(self.leader.leading()),
            failing=self.leader.failing(),
            draining=self.draining.is_set(),
        )

    def start(self) -> None:
        """Begin all that runs in the background; returns at once."""
        self._background = asyncio.create_task(self._live(), name="hub")

    @property
    def exit_code(self) -> int:
        """0, or the code for the failure that ends this process."""
        if self.failure is None:
            return 0
        return self.failure.exit_code if isinstance(self.failure, RotaError) else EXIT_FAILED

    async def resign(self) -> None:
        """Give back every lock and take no more jobs: the first thing that a stop does."""
        self.together.residents.ask()
        await self.leader.resign()

    async def stop(self) -> None:
        """Stop what is left and let go of the database."""
        self.draining.set()
        await self.resign()
        for task in (self._background, self._pulse, self._look_of_tlog):
            if task is not None:
                task.cancel()
                await asyncio.wait({task}, timeout=LATE)
        await self.together.residents.stop()
        await self.tlog.close()
        self._tell()
        await self.together.bus.close()
        await self.database.close()
        log.info("stopped")

    async def _live(self) -> None:
        try:
            await self._open()
            self.together.bus.start()
            self.together.residents.start()
            self.leader.start()
            while True:
                await asyncio.sleep(REFRESH)
                self._note(await self._look())
                self._note_tlog(await self._look_at_tlog())
                self._tell()
        except ConfigurationError as error:
            log.error("cannot run", reason=str(error))  # noqa: TRY400 - an operator's mistake, not a crash
            self._fail(error)
        except Exception as error:
            log.exception("the hub crashed")
            self._fail(error)

    def _tell(self) -> None:
        """Tell pages when what this process leads, or whether it is well, has changed."""
        health = self.health
        state = health.leading, health.reason, health.draining
        if state != self._told:
            self._told = state
            self.together.bus.publish(Live(TOPIC, "health"))

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self.failed.set()
        self.settled.set()

    async def _open(self) -> None:
        """Reach the database, however long it takes."""
        while True:
            try:
                await self.database.open()
                self._note(await self._look())
            except UnreachableError as error:
                self._note(replace(self._health.database, reachable=False, reason=str(error)))
            self.settled.set()
            if self._health.database.reachable:
                return
            await asyncio.sleep(REFRESH)

    async def _look(self) -> DatabaseHealth:
        """Ask the database how it is, and believe no answer that takes long. One question at a time."""
        if self._pulse is None:
            self._pulse = asyncio.create_task(self.database.pulse(), name="hub.pulse")
        done, _ = await asyncio.wait({self._pulse}, timeout=LATE)
        known = self._health.database
        if not done:
            return replace(known, reachable=False, reason=f"no answer within {LATE:.0f} s")
        pulse, self._pulse = self._pulse, None
        try:
            answer = pulse.result()
        except RotaError as error:
            return replace(known, reachable=False, reason=str(error))
        refuse_if_too_new(answer.tolerates, program_schema())
        return replace(known, reachable=True, reason="", server=answer.server, schema=answer.schema)

    async def _look_at_tlog(self) -> TlogHealth:
        """Look where the tlog ends. One look at a time: its thread hangs as long as the files do."""
        if self._look_of_tlog is None:
            self._look_of_tlog = asyncio.create_task(self._tlog_now(), name="hub.tlog")
        done, _ = await asyncio.wait({self._look_of_tlog}, timeout=LATE)
        known = self._health.tlog
        if not done:
            return replace(known, reason=f"no answer within {LATE:.0f} s")
        look, self._look_of_tlog = self._look_of_tlog, None
        try:
            return look.result()
        except RotaError as error:
            return replace(known, reason=str(error))

    async def _tlog_now(self) -> TlogHealth:
        tail = await self.tlog.head()
        publication = Publication(self.settings.tlog_directory)
        return TlogHealth(size=tail.position.size, published=await asyncio.to_thread(publication.size))

    def _note_tlog(self, tlog: TlogHealth) -> None:
        if tlog.reason and tlog.reason != self._health.tlog.reason:
            log.warning("tlog unusable", reason=tlog.reason)
        self._health = replace(self._health, tlog=tlog)

    def _note(self, database: DatabaseHealth) -> None:
        before = self._health.database
        self._health = replace(self._health, database=database)
        if database.reachable and not before.reachable:
            log.info("database reached", server=database.server, schema=database.schema)
        elif not database.reachable and database.reason != before.reason:
            log.warning("database unreachable", reason=database.reason)
