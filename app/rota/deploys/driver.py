"""The job `deploy.step`: carries a deploy on from wherever it stands, to its end."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from rota.coordination.bus.bus import Bus
from rota.coordination.queue.kinds import Job
from rota.deploys import steps, switching
from rota.deploys.context import CancelledStepError, Context, Site, StepFailedError, step_at
from rota.errors import RotaError, UnreachableError
from rota.failpoints import pass_by
from rota.settings import Settings
from rota.store.builds import Builds, BuildState
from rota.store.database import Database, Transaction
from rota.store.deploys import Deploys, StepRow

LEASE = 15.0  # seconds; renewed every 3
LIMIT = 24 * 3600.0  # seconds
ATTEMPTS = 1_000_000  # a deploy whose worker dies is always taken up again
AGAIN = 1.0  # seconds until the next try while the database is away

STEPS: dict[str, Callable[[Context], Awaitable[None]]] = {
    "build": steps.build,
    "release": steps.release,
    "hook": steps.hook,
    "place": steps.place,
    "start": steps.start,
    "health": steps.health,
    "singletons": steps.replace_singletons,
    "switch": switching.switch,
    "settle": switching.settle,
    "stop": switching.stop,
    "finish": switching.finish,
}

FINAL = ("stop", "finish")

log = structlog.get_logger("rota.deploys")


class Driver:
    """Carries deploys on."""

    def __init__(self, settings: Settings, database: Database, bus: Bus) -> None:
        """Work on this hub."""
        self._site = Site(settings, database, bus)
        self._deploys = Deploys(database)

    async def work(self, job: Job) -> None:
        """Carry on the deploy of a job."""
        while True:
            try:
                await self._carry_on(int(job.payload["deploy"]))
            except UnreachableError as error:
                log.warning("deploy waits for the database", reason=str(error))
                await asyncio.sleep(AGAIN)
            else:
                return

    async def _carry_on(self, deploy: int) -> None:
        row = await self._deploys.find(deploy)
        if row is None or row.state != "running":
            return
        context = Context(self._site, row)
        while True:
            every = await self._deploys.steps(deploy)
            failed = next((step for step in every if step.state == "failed"), None)
            if failed is not None:
                await self._undo(context, failed)
                return
            step = step_at(every)
            if step is None:
                return
            await self._run(context, step)

    async def _run(self, context: Context, step: StepRow) -> None:
        deploy = context.row.id
        pass_by(f"deploy.{step.kind}.before")
        await self._deploys.begin_step(deploy, step.number)
        context.step, context.work = step.number, dict(step.work)
        context.final = step.kind in FINAL
        context.tell()
        state, reason = "done", ""
        try:
            await STEPS[step.kind](context)
        except StepFailedError as error:
            state, reason = "failed", str(error)
        except RotaError as error:
            if isinstance(error, UnreachableError):
                raise
            state, reason = "failed", str(error)
        pass_by(f"deploy.{step.kind}.after")
        await self._end_step(context, step, state, reason)
        if state == "failed":
            log.warning("deploy halted", app=context.row.app, deploy=deploy, step=step.kind, reason=reason)

    async def _end_step(self, context: Context, step: StepRow, state: str, reason: str) -> None:
        deploy = context.row.id
        await self._site.database.write(lambda tx: Deploys.end_step(tx, deploy, step.number, state, reason))
        context.tell()

    async def _undo(self, context: Context, failed: StepRow) -> None:
        """Bring back what the deploy had changed; what is undone may not be cancelled."""
        await context.refresh()
        cancelled = failed.reason == str(CancelledStepError("an operator cancelled it"))
        context.step, context.work = failed.number, dict(failed.work)
        context.undoing = True
        if context.row.build is not None:
            await self._end_build(context.row.build)
        pass_by("deploy.undo.before")
        await switching.undo(context, "cancelled" if cancelled else "failed", failed.reason)
        pass_by("deploy.undo.after")
        context.tell()

    async def _end_build(self, build: int) -> None:
        async def work(tx: Transaction) -> bool:
            return await Builds.end(tx, build, BuildState.CANCELLED, "its deploy ended")

        await self._site.database.write(work)
