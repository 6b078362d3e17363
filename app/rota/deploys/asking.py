"""What people ask of apps: deploy, scale, pin, go back. Each is an act; what cannot be done does nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from rota.acts.act import Act
from rota.acts.recorder import perform
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import Live
from rota.coordination.queue.job import NewJob
from rota.coordination.queue.queue import Queue
from rota.deploys import gathering
from rota.deploys.planning import Plan, plan
from rota.errors import ConflictError, InputError, NotFoundError
from rota.placement.facts import Facts, Placed
from rota.placement.placing import place, refuse_unplaced
from rota.placement.rules import near
from rota.releases.names import checked_app
from rota.settings import Settings
from rota.store.apps import AppRow, Apps
from rota.store.builds import Builds
from rota.store.database import Database, Transaction
from rota.store.deploys import Deploys, NewDeploy
from rota.store.instances import Instances
from rota.store.releases import Release, Releases
from rota.store.scales import Scale, Scales
from rota.store.servers import Servers
from rota.tlog.log import Tlog
from rota.tlog.records import Logged

KIND = "deploy.step"
BUILD = "build.run"
PAGES = "app:{}"
MOST = 500  # instances of one process type
# Every step, in its order; those that have nothing to do are passed over.
STEPS = (
    "build",
    "release",
    "hook",
    "place",
    "start",
    "health",
    "singletons",
    "switch",
    "settle",
    "stop",
    "finish",
)


@dataclass(frozen=True)
class Begun:
    """A deploy that has begun, and what the operator should know beside it."""

    deploy: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked: a source to build, or an earlier release, or the same one at other scales."""

    app: str
    cause: str
    source: str = ""
    release: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    pins: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)


class Asking:
    """Every method raises InputError, NotFoundError or ConflictError for what its caller can mend."""

    def __init__(self, settings: Settings, database: Database, tlog: Tlog, queue: Queue, bus: Bus) -> None:
        """Act on this hub."""
        self._settings = settings
        self._database = database
        self._tlog = tlog
        self._queue = queue
        self._bus = bus
        self._deploys = Deploys(database)

    async def deploy(self, actor: str, app: str, source: str) -> Begun:
        """Build a source that is in the artifact store, and move the app to what it makes."""
        asked = Asked(app=checked_app(app), cause="deploy", source=source)
        return await self._begin(actor, asked)

    async def again(self, actor: str, app: str, release: int, cause: str) -> Begun:
        """Move the app to a release that is made already: after a change of configuration, or back."""
        return await self._begin(actor, Asked(app=app, cause=cause, release=release))

    async def scale(self, actor: str, app: str, counts: Mapping[str, int]) -> Begun:
        """Set how many instances of some process types run."""
        for name, count in counts.items():
            if not 0 <= count <= MOST:
                raise InputError(f"{name}={count}: a count is from 0 to {MOST}.", "Write for example web=2.")
        return await self._begin(actor, Asked(app=app, cause="scale", counts=counts))

    async def pin(
        self, actor: str, app: str, process_type: str, use: tuple[str, ...], avoid: tuple[str, ...]
    ) -> Begun:
        """Set the servers that a process type uses, and those that it avoids; it moves what that affects."""
        known = {server.name for server in await Servers(self._database).all()}
        for name in (*use, *avoid):
            if name not in known:
                raise NotFoundError(f"There is no server {name}.", "`rota server list` shows all.")
        if set(use) & set(avoid):
            raise InputError("A server is both to be used and to be avoided.", "Name it once.")
        return await self._begin(actor, Asked(app=app, cause="pin", pins={process_type: (use, avoid)}))

    async def cancel(self, actor: str, deploy: int) -> None:
        """End a deploy before its switch: what it started is stopped, and the old release serves on."""
        row = await self._deploys.find(deploy)
        if row is None:
            raise NotFoundError(f"There is no deploy {deploy}.", "`rota apps` shows what goes on.")
        if row.state != "running":
            raise ConflictError(f"Deploy {deploy} has ended: {row.state}.", "There is nothing to cancel.")
        act = Act(kind="deploy.cancel", actor=actor, subject=row.app, details={"deploy": deploy})

        async def work(_: Logged) -> None:
            await self._database.write(lambda tx: Deploys.cancel(tx, deploy))

        await perform(self._tlog, act, work)
        self._bus.publish(Live(PAGES.format(row.app), "deploy"))

    async def refuse_second(self, app: str) -> None:
        """Refuse where a deploy of the app is under way, before anything is made for another one."""
        await self._database.read(lambda tx: _refuse_second(tx, app))

    async def _begin(self, actor: str, asked: Asked) -> Begun:
        await self._refuse_early(asked)
        details: dict[str, Any] = {
            "cause": asked.cause,
            **({"source": asked.source} if asked.source else {}),
            **({"release": asked.release} if asked.release else {}),
            **({"counts": dict(asked.counts)} if asked.counts else {}),
            **({"pins": {k: [list(u), list(a)] for k, (u, a) in asked.pins.items()}} if asked.pins else {}),
        }

        async def work(_: Logged) -> Begun:
            return await self._database.write(lambda tx: self._put(tx, actor, asked))

        begun = await perform(
            self._tlog, Act(kind=f"app.{asked.cause}", actor=actor, subject=asked.app, details=details), work
        )
        self._bus.publish(Live(PAGES.format(asked.app), "deploy"))
        return begun

    async def _refuse_early(self, asked: Asked) -> None:
        """Say what cannot be done before it stands in the log. The unit of work below decides."""

        async def look(tx: Transaction) -> None:
            await _refuse_second(tx, asked.app)
            if not asked.source:
                await self._prepare(tx, asked)

        await self._database.read(look)

    async def _put(self, tx: Transaction, actor: str, asked: Asked) -> Begun:
        warnings: tuple[str, ...] = ()
        if asked.source:
            await Apps.add(tx, asked.app)
            app = await Apps.hold(tx, asked.app)
            build = await Builds.add(tx, asked.app, asked.source, actor)
            await self._queue.enqueue(tx, NewJob(kind=BUILD, payload={"build": build}, key=f"build:{build}"))
            release = None
        else:
            await Apps.hold(tx, asked.app)
            prepared = await self._prepare(tx, asked)
            app, build, release, warnings = prepared.app, None, prepared.release.number, prepared.warnings
            for scale in prepared.changed:
                await Scales.add(tx, asked.app, scale.process_type, scale.count)
                known = (await Scales.within(tx, asked.app))[scale.process_type]
                await Scales.change(tx, asked.app, replace(scale, version=known.version))
        new = NewDeploy(
            app=asked.app,
            cause=asked.cause,
            actor=actor,
            before=app.release if app else None,
            release=release,
            build=build,
            asked={"source": asked.source},
        )
        deploy = await Deploys.add(tx, new)
        if deploy is None:
            await _refuse_second(tx, asked.app)
            raise ConflictError(f"{asked.app} is being deployed.", "Try again when that has ended.")
        for number, kind in enumerate(STEPS, 1):
            await Deploys.add_step(tx, deploy, number, kind)
        await self._queue.enqueue(tx, NewJob(kind=KIND, payload={"deploy": deploy}, key=f"deploy:{deploy}"))
        return Begun(deploy, warnings)

    async def _prepare(self, tx: Transaction, asked: Asked) -> "_Prepared":
        """Decide whether what is asked of an app that is there can be done; it writes nothing."""
        app = await Apps.within(tx, asked.app)
        if app is None:
            raise NotFoundError(
                f"There is no app {asked.app}.", "`rota apps` shows all; `rota deploy` makes one."
            )
        number = asked.release or app.release
        release = await Releases.within(tx, asked.app, number) if number else None
        if release is None:
            raise NotFoundError(
                f"{asked.app} has no release {number or 'yet'}.", f"`rota releases {asked.app}` shows all."
            )
        statement = release.statement
        known = gathering.scales_of(statement, await Scales.within(tx, asked.app))
        for name in {*asked.counts, *asked.pins} - known.keys():
            raise NotFoundError(
                f"{asked.app} has no process type {name}.", f"It has {', '.join(known)}: see its Procfile."
            )
        changed = _changed(known, asked)
        for scale in changed:
            if statement.processes[scale.process_type].singleton and scale.count > 1:
                raise InputError(f"{scale.process_type} is a singleton: it runs once.", "Scale it to 0 or 1.")
        wanted = {**known, **{scale.process_type: scale for scale in changed}}
        warnings = await self._refuse_impossible(tx, release, wanted)
        return _Prepared(app, release, changed, warnings)

    async def _refuse_impossible(
        self, tx: Transaction, release: Release, wanted: Mapping[str, Scale]
    ) -> tuple[str, ...]:
        decided = await decide(tx, release, wanted, self._settings.placement.database_latency_ms)
        refuse_unplaced(decided.placed)
        limit = self._settings.placement.database_latency_ms
        if not release.statement.requires.database:
            return ()
        far = {server.name for server in decided.facts.servers if not near(server, limit)}
        return tuple(
            f"{placed.instance} goes to {placed.server}, whose latency to the database is over {limit} ms"
            for placed in decided.placed
            if placed.server in far
        )


@dataclass(frozen=True)
class _Prepared:
    app: AppRow
    release: Release
    changed: list[Scale]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Decided:
    """A plan, and where what is new in it belongs."""

    plan: Plan
    facts: Facts
    placed: list[Placed]


async def decide(tx: Transaction, release: Release, scales: Mapping[str, Scale], latency: int) -> Decided:
    """Decide what brings an app to a release at these scales, as this transaction sees everything."""
    statement = release.statement
    every, servers = await Instances.live_within(tx), await Servers.within(tx)
    live = [copy for copy in every if copy.app == release.app]
    app = await Apps.within(tx, release.app)
    moves = frozenset(
        copy.id
        for copy in live
        if (scale := scales.get(copy.process_type)) is not None
        and ((scale.use and copy.server not in scale.use) or copy.server in scale.avoid)
    )
    made = plan(statement, app.release if app else None, scales, live, moves=moves)
    going = {each for kind in made.types for each in kind.goes}
    wanted = [name for kind in made.types for name in kind.new]
    wishes = gathering.wishes(statement, scales, wanted, gathering.holder_of(statement, live))
    staying = [copy for copy in every if copy.id not in going]
    facts = gathering.facts(servers, staying, await Instances.ports(tx), wishes, latency)
    return Decided(made, facts, place(facts))


def _changed(known: Mapping[str, Scale], asked: Asked) -> list[Scale]:
    changed = {name: replace(known[name], count=count) for name, count in asked.counts.items()}
    for name, (use, avoid) in asked.pins.items():
        changed[name] = replace(changed.get(name, known[name]), use=use, avoid=avoid)
    return [changed[name] for name in sorted(changed)]


async def _refuse_second(tx: Transaction, app: str) -> None:
    for row in await Deploys.running_within(tx, app):
        raise ConflictError(
            f"{app} is being deployed by {row.actor} since {_when(row.created_at)} (deploy {row.id}).",
            f"Wait for it with --wait, or end it with `rota deploy --cancel {app}`.",
        )


def _when(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
