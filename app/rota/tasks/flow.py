"""`flow.placement` says why things wait; `flow.reaper` marks the runs whose server fell silent."""

import structlog

from rota.acts.act import Act
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import ActWaiting, Live
from rota.coordination.leader import Term
from rota.store.database import Database, Transaction
from rota.store.deploys import Deploys, Waiting
from rota.store.instances import Instances, State
from rota.store.routes import Routes
from rota.store.runs import RunRow, Runs
from rota.store.servers import ServerRow, Servers
from rota.store.tlog import Outbox

LOOK = 2.0  # seconds between two passes

log = structlog.get_logger("rota.flow")


class Placement:
    """The placement pass: why each instance, run or deploy waits, written where people read it."""

    def __init__(self, database: Database, bus: Bus) -> None:
        """Look at this database."""
        self._database = database
        self._bus = bus

    async def __call__(self, term: Term) -> None:
        """Pass until asked to stop."""
        while True:
            reasons = await self.reasons()
            if await self._database.write(lambda tx: Waiting.replace(tx, reasons), term.fence):  # noqa: B023
                self._bus.publish(Live("apps", "waiting"))
            if await term.pause(LOOK):
                return

    async def reasons(self) -> dict[str, str]:
        """Return why each thing waits that does."""
        servers = {server.name: server for server in await Servers(self._database).all()}
        reported = {
            (each.server, each.instance, each.release): each
            for each in await Servers(self._database).reported()
        }
        found: dict[str, str] = {}
        for copy in await Instances(self._database).live():
            said = reported.get((copy.server, copy.name, copy.release))
            server = servers.get(copy.server)
            name = f"{copy.copy} on {copy.server}"
            if server is None or server.lost:
                found[name] = _lost(server, copy.server)
            elif copy.state is State.PLACED and (said is None or said.state == "placed"):
                found[name] = "it is placed, and its turn to start has not come"
            elif said is None:
                found[name] = "its server has not said anything of it yet"
            elif not said.healthy and copy.state is not State.STOPPING:
                found[name] = said.reason.partition("\n")[0] or f"it is {said.state} and not healthy yet"
        for run in await Runs(self._database).underway():
            if run.state == "waiting":
                found[f"run {run.id}"] = f"{run.server} has not begun it"
        for deploy in await Deploys(self._database).running():
            route = await Routes(self._database).of(deploy.app)
            if route is not None and route.reason and route.confirmed < route.wanted:
                found[f"deploy {deploy.id}"] = f"the proxy: {route.reason}"
        return found


class Reaper:
    """Marks runs lost; it never starts one again."""

    def __init__(self, database: Database, bus: Bus) -> None:
        """Look at this database."""
        self._database = database
        self._bus = bus

    async def __call__(self, term: Term) -> None:
        """Look until asked to stop."""
        while True:
            lost = {server.name for server in await Servers(self._database).all() if server.lost}
            for run in await Runs(self._database).underway():
                if run.server in lost and await self._lose(run, term):
                    log.warning("run lost", run=run.id, app=run.app, server=run.server)
                    self._bus.publish(ActWaiting())
                    self._bus.publish(Live(f"run:{run.id}", "state"))
            if await term.pause(LOOK):
                return

    async def _lose(self, run: RunRow, term: Term) -> bool:
        return await self._database.write(lambda tx: _reap(tx, run), term.fence)


async def _reap(tx: Transaction, run: RunRow) -> bool:
    if not await Runs.end(tx, run.id, "lost", None, f"{run.server} fell silent: the outcome is unknown"):
        return False
    act = Act(kind="run.lost", actor="flow.reaper", subject=run.app, details={"run": run.id})
    await Outbox.add(tx, bytes(act))
    return True


def _lost(server: ServerRow | None, name: str) -> str:
    if server is None:
        return f"{name} is gone"
    since = f" since {server.reported_at:%Y-%m-%d %H:%M:%S} UTC" if server.reported_at else ""
    return f"{name} is lost: no report{since}. Nothing starts elsewhere by itself"
