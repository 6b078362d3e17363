"""The steps of a deploy from its switch on, and the way back."""

import asyncio
from typing import Any

from rota.coordination.bus.events import Live
from rota.deploys.asking import PAGES
from rota.deploys.context import Context, StepFailedError, about
from rota.deploys.planning import ROUTED
from rota.deploys.steps import plan_of, singletons, start_copies, stop_copies, until_healthy
from rota.store.apps import Apps
from rota.store.database import Transaction
from rota.store.deploys import Deploys
from rota.store.instances import InstanceRow, Instances, NewInstance, State
from rota.store.releases import Releases
from rota.store.routes import Routes

SWITCHED = "switched"  # what the step notes once traffic has moved


async def switch(context: Context) -> None:
    """Send requests to the new copies, in one transaction; the old ones stand by."""
    plan, app = plan_of(context), context.row.app
    fresh = [copy.id for copy in await context.own() if copy.process_type == ROUTED]
    goes = [each for kind in plan.types if kind.process_type == ROUTED for each in kind.goes]
    old = [copy.id for copy in await context.copies(goes) if copy.state is State.ROUTED]

    async def work(tx: Transaction) -> int:
        await context.set_states(tx, {State.ROUTED: fresh, State.STANDBY: old})
        row = await Apps.hold(tx, app)
        if row is not None and context.row.release is not None:
            await Apps.move(tx, app, context.row.release, row.version)
        await Routes.want(tx, app)
        return context.row.before or 0

    await context.once(SWITCHED, work)
    context.bus.publish(_routes(context))
    await context.routed()


async def settle(context: Context) -> None:
    """Watch the new copies for a while, with the old ones standing by."""
    plan = plan_of(context)
    fresh = await context.own()
    if not fresh or not any(kind.goes for kind in plan.types):
        return
    end = asyncio.get_running_loop().time() + context.settings.deploys.settle
    async for _ in context.looks():
        reported = await context.reported()
        for copy in fresh:
            said = reported.get((copy.server, copy.name, copy.release))
            if said is not None and not said.healthy:
                raise StepFailedError(f"{about(copy)} was healthy and is no longer: {said.reason}")
        if asyncio.get_running_loop().time() >= end:
            return


async def stop(context: Context) -> None:
    """Take the old copies out of the proxy, let go of what is under way, and stop them."""
    plan = plan_of(context)
    old = await context.copies([each for kind in plan.types for each in kind.goes])
    if not old:
        return
    leaving = [copy for copy in old if copy.state in (State.ROUTED, State.STANDBY)]

    async def work(tx: Transaction) -> bool:
        await context.set_states(tx, {State.STOPPING: [copy.id for copy in old]})
        await Routes.want(tx, context.row.app)
        return any(copy.state is State.ROUTED for copy in leaving)

    served_until_now = await context.once("out", work)
    context.bus.publish(_routes(context))
    await context.routed()
    if served_until_now:
        # These had requests a moment ago; those on standby had none for longer than this.
        await asyncio.sleep(min(context.settings.deploys.settle, 5))
    await stop_copies(context, "orders", old)


async def finish(context: Context) -> None:
    """Say that the release serves."""

    async def work(tx: Transaction) -> bool:
        if context.row.release is not None:
            await Releases.mark_served(tx, context.row.app, context.row.release)
        await context.put_act(
            tx, "deploy.done", {"release": context.row.release or 0, "cause": context.row.cause}
        )
        return await Deploys.end(tx, context.row.id, "done")

    await context.once("ended", work)


async def undo(context: Context, state: str, reason: str) -> None:
    """Bring everything back to how it was before the deploy, as far as it had come; then end it.

    Its notes are kept at the step that failed, so that this too may be begun again.
    """
    steps = {step.kind: step for step in await context.deploys.steps(context.row.id)}
    if SWITCHED in steps["switch"].work:
        await _switch_back(context)
    restored = ""
    if context.row.plan:
        restored = await _restore_singletons(context, dict(steps["singletons"].work))
    fresh = await context.own()
    if fresh:
        await stop_copies(context, "undo", fresh)

    async def work(tx: Transaction) -> bool:
        said = f"{reason}{restored}"
        await context.put_act(tx, f"deploy.{state}", {"reason": said[:500], "cause": context.row.cause})
        return await Deploys.end(tx, context.row.id, state, said)

    await context.once("ended", work)


async def _switch_back(context: Context) -> None:
    plan, app, before = plan_of(context), context.row.app, context.row.before
    fresh = [copy.id for copy in await context.own()]
    goes = [each for kind in plan.types if kind.process_type == ROUTED for each in kind.goes]
    old = [copy.id for copy in await context.copies(goes) if copy.state is State.STANDBY]

    async def work(tx: Transaction) -> bool:
        await context.set_states(tx, {State.STARTED: fresh, State.ROUTED: old})
        row = await Apps.hold(tx, app)
        if row is not None and before is not None:
            await Apps.move(tx, app, before, row.version)
        await Routes.want(tx, app)
        return True

    await context.once("back", work)
    context.bus.publish(_routes(context))
    await context.routed()


async def _restore_singletons(context: Context, noted: dict[str, object]) -> str:
    """Start the old release's singletons again that this deploy had stopped; return what to say of it."""
    said = ""
    statement = await context.statement()
    for kind in plan_of(context).types:
        name = kind.process_type
        if name not in singletons(statement) or f"stop {name}" not in noted:
            continue
        await stop_copies(
            context, f"undo {name}", [copy for copy in await context.own() if copy.process_type == name]
        )
        old = [copy for copy in await context.instances.live("") if copy.id in kind.goes]
        gone = [await _stopped(context, each) for each in kind.goes if each not in {copy.id for copy in old}]
        again = [copy for copy in gone if copy is not None]

        async def work(tx: Transaction, again: list[InstanceRow] = again) -> list[int]:
            made = []
            for copy in again:
                new = NewInstance(
                    name=copy.name,
                    app=copy.app,
                    process_type=copy.process_type,
                    release=copy.release,
                    server=copy.server,
                    port=copy.port,
                    reasons=copy.reasons,
                    deploy=None,
                )
                made.append(await Instances.add(tx, new))
                more: dict[str, Any] = {"process_type": copy.process_type, "port": copy.port, "command": ""}
                await context.order(tx, "place", copy, **more)
            return made

        made = await context.once(f"restore {name}", work)
        copies = await context.copies(made)
        if not copies:
            continue
        await start_copies(context, f"restart {name}", copies)
        try:
            await until_healthy(context, copies)
            said += f"; {name} of v{copies[0].release} runs again on {copies[0].server}"
        except StepFailedError as error:
            said += f"; {name} of v{copies[0].release} was started again and is not well: {error}"
    return said


async def _stopped(context: Context, copy: int) -> InstanceRow | None:
    return await context.instances.find(copy)


def _routes(context: Context) -> Live:
    return Live(PAGES.format(context.row.app), "routes")
