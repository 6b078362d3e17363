"""What every step of a deploy works with: its rows, orders to servers, and waiting for what comes of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rota.acts.act import Act
from rota.coordination.bus.broadcast import Subscription
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import ActWaiting, Live, OrderWaiting, Topic
from rota.deploys.asking import PAGES
from rota.errors import RotaError
from rota.settings import Settings
from rota.store.database import Database, Transaction
from rota.store.deploys import DeployRow, Deploys, StepRow
from rota.store.instances import InstanceRow, Instances, State
from rota.store.releases import Release, Releases
from rota.store.routes import Routes
from rota.store.server_outbox import ServerOutbox
from rota.store.servers import Reported, Servers
from rota.store.tlog import Outbox
from rota.wire.statements import ReleaseStatement

TASK = "task deploy"
LOOK = 0.1  # seconds between two looks at what is waited for, where nothing says that it has come
ROUTED_WITHIN = 60.0  # seconds that the proxy has to confirm


class StepFailedError(RotaError):
    """A step ran and failed: the deploy halts, and what it began is undone."""


class CancelledStepError(StepFailedError):
    """An operator ended the deploy."""


@dataclass(frozen=True)
class Site:
    """The parts of this process that steps use."""

    settings: Settings
    database: Database
    bus: Bus


class Context:
    """One deploy while a worker carries it on. A step may run again after any fault."""

    def __init__(self, site: Site, row: DeployRow) -> None:
        """Carry on this deploy."""
        self.settings = site.settings
        self.database = site.database
        self.bus = site.bus
        self.row = row
        self.deploys = Deploys(site.database)
        self.instances = Instances(site.database)
        self.servers = Servers(site.database)
        self.orders = ServerOutbox(site.database)
        self.routes = Routes(site.database)
        self.step = 0  # the number of the step that runs
        self.work: dict[str, Any] = {}  # what that step has noted
        self.undoing = False
        self.final = False  # from here on there is no way back, and nothing to cancel

    async def refresh(self) -> None:
        """Read the deploy again."""
        row = await self.deploys.find(self.row.id)
        if row is None:
            raise StepFailedError("the deploy's row is gone")
        self.row = row

    async def release(self) -> Release:
        """Return the release that the app moves to. Raises StepFailedError where there is none."""
        found = await Releases(self.database).find(self.row.app, self.row.release or 0)
        if found is None:
            raise StepFailedError(f"{self.row.app} has no release {self.row.release}")
        return found

    async def statement(self) -> ReleaseStatement:
        """Return what that release is."""
        return (await self.release()).statement

    async def own(self) -> list[InstanceRow]:
        """Return the copies that this deploy made and that have not stopped."""
        return [
            copy for copy in await self.instances.of_deploy(self.row.id) if copy.state is not State.STOPPED
        ]

    async def copies(self, ids: Sequence[int]) -> list[InstanceRow]:
        """Return live copies by their numbers."""
        return [copy for copy in await self.instances.live(self.row.app) if copy.id in set(ids)]

    def tell(self) -> None:
        """Tell pages and whoever follows."""
        self.bus.publish(Live(PAGES.format(self.row.app), "deploy"))

    def nudge_log(self) -> None:
        """Tell the process that appends acts."""
        self.bus.publish(ActWaiting())

    async def put_act(self, tx: Transaction, kind: str, details: Mapping[str, Any]) -> int:
        """Put an act of this deploy on its way into the log; return its row."""
        act = Act(kind=kind, actor=TASK, subject=self.row.app, details={"deploy": self.row.id, **details})
        return await Outbox.add(tx, bytes(act), self.nudge_log)

    async def order(
        self, tx: Transaction, kind: str, copy: InstanceRow, act: int | None = None, **more: Any
    ) -> int:
        """Put out an order about a copy; return its row."""
        body = {"instance": copy.name, "release": copy.release, "app": copy.app, "run": 0, **more}
        nudge = partial(self.bus.publish, OrderWaiting(copy.server))
        return await ServerOutbox.put(tx, copy.server, kind, copy.name, body, act=act, nudge=nudge)

    async def once(self, name: str, make: Callable[[Transaction], Awaitable[Any]]) -> Any:
        """Do a unit of work of this step once, however often the step is begun; return what it noted."""
        if name in self.work:
            return self.work[name]

        async def work(tx: Transaction) -> Any:
            noted = await make(tx)
            await Deploys.note(tx, self.row.id, self.step, {**self.work, name: noted})
            return noted

        self.work = {**self.work, name: await self.database.write(work)}
        return self.work[name]

    async def arrived(self, orders: Mapping[str, int], *, patient: bool = False) -> None:
        """Wait until the servers have taken orders, given by whom they are about.

        Raises StepFailedError for one that is refused. With `patient` a refusal
        or a lost server is passed over: the order waits on by itself.
        """
        left = dict(orders)
        async for _ in self.looks():
            for about, order in list(left.items()):
                outcome = await self.orders.outcome(order)
                if outcome is None or outcome.state == "done" or (patient and outcome.state != "waiting"):
                    del left[about]
                elif outcome.state != "waiting":
                    raise StepFailedError(f"{about}: {outcome.reason}")
            if not left:
                return
            lost = {server.name for server in await self.servers.all() if server.lost}
            for about in [each for each in left if each.rpartition(" on ")[2] in lost]:
                if not patient:
                    raise StepFailedError(f"{about}: the server is lost")
                del left[about]

    async def reported(self) -> dict[tuple[str, str, int], Reported]:
        """Return what servers say of the app's copies, by server, instance and release."""
        found = await self.servers.reported(self.row.app)
        return {(each.server, each.instance, each.release): each for each in found}

    async def routed(self) -> None:
        """Wait until the proxy does what the database says. Raises StepFailedError where it does not."""
        end = asyncio.get_running_loop().time() + ROUTED_WITHIN
        row = None
        async for _ in self.looks(cancellable=False):
            row = await self.routes.of(self.row.app)
            if row is None or row.confirmed >= row.wanted:
                return
            if asyncio.get_running_loop().time() > end:
                break
        reason = (
            row.reason if row and row.reason else "the task routing.sync did not confirm: does a worker run?"
        )
        raise StepFailedError(f"the proxy was not switched within {ROUTED_WITHIN:.0f} s: {reason}")

    async def looks(self, *, cancellable: bool = True) -> AsyncIterator[None]:
        """Yield now, and again whenever something may have changed. Raises CancelledStepError."""
        with self.bus.subscribe(Topic.LIVE) as events:
            while True:
                if cancellable:
                    await self.refuse_cancelled()
                yield
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await _anything(events)

    async def refuse_cancelled(self) -> None:
        """Go on, unless an operator has ended the deploy. Raises CancelledStepError."""
        await self.refresh()
        if self.row.cancelling and not (self.undoing or self.final):
            raise CancelledStepError("an operator cancelled it")

    async def set_states(self, tx: Transaction, moves: Mapping[State, Sequence[int]]) -> None:
        """Move copies, all in the order of their numbers."""
        for copy, state in sorted((copy, state) for state, copies in moves.items() for copy in copies):
            await Instances.move(tx, [copy], state)


def about(copy: InstanceRow) -> str:
    """Return a copy and where it is, for people."""
    return f"{copy.copy} on {copy.server}"


def step_at(steps: Sequence[StepRow]) -> StepRow | None:
    """Return the step to carry on with: the first that has not ended."""
    return next((step for step in steps if step.state in ("waiting", "running")), None)


async def _anything(events: Subscription) -> None:
    await events.next()
    events.skip()
