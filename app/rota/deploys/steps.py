"""The steps of a deploy up to its switch. Each may be begun again after any fault; its effect comes once."""

from collections.abc import Sequence
from typing import Any

import msgspec

from rota.builds.manifest import read
from rota.deploys.asking import decide
from rota.deploys.context import Context, StepFailedError, about
from rota.deploys.gathering import free_port, scales_of
from rota.deploys.planning import Plan
from rota.errors import RotaError
from rota.placement.placing import refuse_unplaced
from rota.releases.making import Making, Wanted, make
from rota.store.builds import Builds, BuildState
from rota.store.database import Transaction
from rota.store.deploys import Deploys
from rota.store.instances import InstanceRow, Instances, NewInstance, State
from rota.store.moments import NOT_YET
from rota.store.runs import NewRun, Runs
from rota.store.scales import Scales
from rota.store.servers import ENROLLED, ServerRow, Servers
from rota.wire.statements import ReleaseStatement

DEATHS = 3  # restarts before it was ever healthy, after which nobody waits for it any longer
SLACK = 30.0  # seconds beyond its own `start` that an instance has to become healthy: a report, a fetch


async def build(context: Context) -> None:
    """Wait for the build."""
    number = context.row.build
    if number is None:
        return
    builds = Builds(context.database)
    async for _ in context.looks():
        row = await builds.find(number)
        if row is None:
            raise StepFailedError(f"build {number} is gone")
        if row.state is BuildState.DONE:
            return
        if row.state.ended:
            raise StepFailedError(f"the build {row.state}: {row.reason}")


async def release(context: Context) -> None:
    """Make the release of what was built."""
    if context.row.release is not None:
        return
    row = await Builds(context.database).find(context.row.build or 0)
    if row is None or row.artifact is None:
        raise StepFailedError("the build made nothing")
    manifest = read(row.manifest)
    wanted = Wanted(
        app=row.app,
        artifact=row.artifact,
        processes=manifest.processes,
        requires=manifest.requires,
        hook=manifest.hook,
        environment=manifest.environment,
        build=row.id,
        required=manifest.required,
    )
    why = Making(context.row.cause, context.row.actor, context.nudge_log)

    async def work(tx: Transaction) -> int:
        made = await make(tx, wanted, why)
        await Deploys.set_release(tx, context.row.id, made.number)
        return made.number

    await context.once("release", work)
    await context.refresh()


async def hook(context: Context) -> None:
    """Run the release hook once, on the primary."""
    statement = await context.statement()
    if not statement.hook or context.row.cause in ("scale", "pin"):
        return
    server = _primary(await context.servers.all())
    port = server.first_port + server.ports - 1  # a run listens nowhere

    async def work(tx: Transaction) -> int:
        new = NewRun(
            app=statement.app,
            kind="release",
            release=statement.number,
            command=statement.hook,
            server=server.name,
            deploy=context.row.id,
        )
        run = await Runs.add(tx, new)
        copy = _run_copy(statement, server.name, port)
        act = await context.put_act(tx, "run.start", {"run": run, "hook": "release", "server": server.name})
        more = {"run": run, "process_type": "release", "port": port, "command": statement.hook}
        await context.order(tx, "place", copy, act, **more)
        await context.order(tx, "start", copy, act, run=run)
        return run

    run = int(await context.once("run", work))
    runs = Runs(context.database)
    async for _ in context.looks():
        row = await runs.find(run)
        if row is None or row.ended:
            break
    copy = _run_copy(statement, server.name, port)
    await context.once("forgotten", lambda tx: context.order(tx, "stop", copy, run=run))
    if row is None or row.state != "done":
        outcome = (
            "its outcome is unknown" if row is None or row.state == "lost" else f"exit code {row.exit_code}"
        )
        reason = f": {row.reason}" if row and row.reason else ""
        raise StepFailedError(f"the release hook {statement.hook!r} failed, {outcome}{reason}")


async def place(context: Context) -> None:
    """Decide where what is new belongs, and have the servers fetch it."""
    release_row = await context.release()
    statement = release_row.statement
    latency = context.settings.placement.database_latency_ms

    async def work(tx: Transaction) -> dict[str, int]:
        for name in statement.processes:
            await Scales.add(tx, statement.app, name, 1)
        scales = scales_of(statement, await Scales.within(tx, statement.app))
        decided = await decide(tx, release_row, scales, latency)
        try:
            refuse_unplaced(decided.placed)
        except RotaError as error:
            raise StepFailedError(str(error)) from error
        await Deploys.set_plan(tx, context.row.id, msgspec.to_builtins(decided.plan))
        facts = msgspec.json.encode(decided.facts).decode()
        details = {
            "release": statement.number,
            "facts": facts,
            "placed": [{"instance": each.instance, "server": each.server} for each in decided.placed],
        }
        act = await context.put_act(tx, "instances.place", details)
        servers = {server.name: server for server in await Servers.within(tx)}
        taken = await Instances.ports(tx)
        orders = {}
        for each in decided.placed:
            ports = taken.setdefault(each.server, set())
            port = free_port(servers[each.server], ports)
            ports.add(port)
            kind = each.instance.split(".")[1]
            new = NewInstance(
                name=each.instance,
                app=statement.app,
                process_type=kind,
                release=statement.number,
                server=each.server,
                port=port,
                reasons=msgspec.json.encode(each).decode(),
                deploy=context.row.id,
            )
            copy = await _added(tx, new)
            order = await context.order(tx, "place", copy, act, process_type=kind, port=port, command="")
            orders[about(copy)] = order
        return orders

    orders = await context.once("orders", work)
    await context.refresh()
    context.tell()
    await context.arrived(orders)


async def start(context: Context) -> None:
    """Start what is new, but for singletons, whose turn comes."""
    singles = singletons(await context.statement())
    fresh = [copy for copy in await context.own() if copy.process_type not in singles]
    await start_copies(context, "orders", fresh)


async def health(context: Context) -> None:
    """Wait until everything that was started is healthy."""
    statement = await context.statement()
    singles = singletons(statement)
    await until_healthy(context, [copy for copy in await context.own() if copy.process_type not in singles])


async def replace_singletons(context: Context) -> None:
    """Stop each singleton before its replacement starts."""
    for kind in plan_of(context).types:
        if not kind.singleton or not kind.new:
            continue
        name = kind.process_type
        old = await context.copies(kind.goes)
        if old:
            await stop_copies(context, f"stop {name}", old)
        fresh = [copy for copy in await context.own() if copy.process_type == name]
        await start_copies(context, f"start {name}", fresh)
        await until_healthy(context, fresh)


async def start_copies(context: Context, name: str, copies: Sequence[InstanceRow]) -> None:
    """Have copies started, once, and wait until the servers have taken that."""

    async def work(tx: Transaction) -> dict[str, int]:
        orders = {about(copy): await context.order(tx, "start", copy) for copy in copies}
        await context.set_states(tx, {State.STARTED: [copy.id for copy in copies]})
        return orders

    await context.arrived(await context.once(name, work))


async def stop_copies(context: Context, name: str, copies: Sequence[InstanceRow]) -> None:
    """Have copies stopped, once. One on a lost server stays `stopping`: the order waits for it."""

    async def work(tx: Transaction) -> dict[str, Any]:
        orders = {about(copy): await context.order(tx, "stop", copy) for copy in copies}
        await context.set_states(tx, {State.STOPPING: [copy.id for copy in copies]})
        return orders

    orders = await context.once(name, work)
    await context.arrived(orders, patient=True)

    async def settle(tx: Transaction) -> list[int]:
        gone = []
        for copy in copies:
            row = await tx.one("orders.outcome", id=orders[about(copy)])
            if row is None or row["state"] != "waiting":
                gone.append(copy.id)
        await context.set_states(tx, {State.STOPPED: gone})
        return gone

    await context.once(f"{name} done", settle)


async def until_healthy(context: Context, copies: Sequence[InstanceRow]) -> None:
    """Wait until copies are healthy. Raises StepFailedError for one that is not, with its last lines."""
    processes = (await context.statement()).processes
    began = (await context.servers.identity()).now
    async for _ in context.looks():
        reported, waits = await context.reported(), []
        lost = {server.name for server in await context.servers.all() if server.lost}
        now = (await context.servers.identity()).now
        for copy in copies:
            said = reported.get((copy.server, copy.name, copy.release))
            if copy.server in lost:
                raise StepFailedError(f"{about(copy)}: the server is lost")
            if said is not None and said.healthy:
                continue
            late = (now - began).total_seconds() > processes[copy.process_type].health.start + SLACK
            dies = said is not None and (said.state == "failed" or said.restarts >= DEATHS)
            if dies or late:
                reason = said.reason if said and said.reason else "its server says nothing of it"
                raise StepFailedError(f"{about(copy)} did not become healthy: {reason}")
            waits.append(copy)
        if not waits:
            return


def singletons(statement: ReleaseStatement) -> set[str]:
    """Return the process types that run once."""
    return {name for name, process in statement.processes.items() if process.singleton}


def plan_of(context: Context) -> Plan:
    """Return the plan as it was decided."""
    return msgspec.convert(dict(context.row.plan), Plan)


async def _added(tx: Transaction, new: NewInstance) -> InstanceRow:
    number = await Instances.add(tx, new)
    return next(copy for copy in await Instances.live_within(tx, new.app) if copy.id == number)


def _primary(servers: Sequence[ServerRow]) -> ServerRow:
    for server in servers:
        if server.is_primary and server.state == ENROLLED:
            if server.lost:
                raise StepFailedError(f"release hooks run on the primary, and {server.name} is lost")
            return server
    raise StepFailedError(
        "release hooks run on the primary, which is no server yet: `rota server enrol NAME --primary`"
    )


def _run_copy(statement: ReleaseStatement, server: str, port: int) -> InstanceRow:
    """Return what an order about a run is addressed by; it has no row."""
    return InstanceRow(
        name=f"{statement.app}.release.1",
        app=statement.app,
        process_type="release",
        release=statement.number,
        server=server,
        port=port,
        reasons="{}",
        deploy=None,
        id=0,
        state=State.PLACED,
        created_at=NOT_YET,
        changed_at=NOT_YET,
    )
