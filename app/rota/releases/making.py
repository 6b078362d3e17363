"""Makes releases: a row and an entry on its way into the log, in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from rota.errors import ConflictError, NotFoundError
from rota.releases.statement import written
from rota.store.apps import Apps
from rota.store.artifacts import Artifacts
from rota.store.configurations import Configurations
from rota.store.database import Transaction
from rota.store.releases import Release, Releases
from rota.store.tlog import Nudge, Outbox
from rota.wire.statements import Process, ReleaseStatement, Requires


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a release of a build is to be. Without a `configuration` it has the newest one.

    `required` are the names that the configuration must have.
    """

    app: str
    artifact: str
    processes: Mapping[str, Process]
    requires: Requires = field(default_factory=Requires)
    hook: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    configuration: int | None = None
    build: int | None = None
    required: Sequence[str] = ()


@dataclass(frozen=True)
class Making:
    """Why a release is made, and by whom; `nudge` tells the process that appends to the log."""

    cause: str
    actor: str
    nudge: Nudge | None = None


async def make(tx: Transaction, wanted: Wanted, making: Making) -> Release:
    """Make the next release of an app, and have it logged.

    What acts on the release waits until the outbox row `act` has its index.
    Raises NotFoundError where the app or the artifact is not there, and
    InputError where the statement is too long.
    """
    await _hold(tx, wanted.app)
    artifact = await Artifacts.within(tx, wanted.artifact)
    if artifact is None:
        raise NotFoundError(f"The artifact {wanted.artifact} is not in the store.", "Build it anew.")
    newest = await Configurations.newest_within(tx, wanted.app)
    configuration = wanted.configuration
    if configuration is None:
        configuration = newest.number if newest else 0
    missing = sorted(set(wanted.required) - set(newest.names if newest else ()))
    if missing:
        raise ConflictError(
            f"{wanted.app} needs {', '.join(missing)}, which its rota.toml requires and nobody has set.",
            f"`rota config set {wanted.app} {missing[0]}` sets it.",
        )
    await Artifacts.use(tx, artifact.hash)
    statement = ReleaseStatement(
        app=wanted.app,
        number=await Releases.next(tx, wanted.app),
        artifact=artifact.hash,
        sha256=artifact.sha256,
        size=artifact.size,
        processes=dict(wanted.processes),
        configuration=configuration,
        requires=wanted.requires,
        hook=wanted.hook,
        environment=dict(wanted.environment),
    )
    return await _add(tx, statement, wanted.build, making)


async def again(tx: Transaction, old: Release, making: Making, configuration: int | None = None) -> Release:
    """Make the next release from an earlier one, with another configuration where one is given.

    Raises NotFoundError, and ConflictError where the artifact is no longer kept.
    """
    await _hold(tx, old.app)
    if not await Artifacts.use(tx, old.artifact):
        raise ConflictError(
            f"The artifact of {old.app} v{old.number} is no longer kept.",
            f"`rota releases {old.app}` shows those that one can go back to.",
        )
    statement = msgspec.structs.replace(
        old.statement,
        number=await Releases.next(tx, old.app),
        configuration=old.configuration if configuration is None else configuration,
    )
    return await _add(tx, statement, old.build, making)


async def _hold(tx: Transaction, app: str) -> None:
    if await Apps.hold(tx, app) is None:
        raise NotFoundError(f"There is no app {app}.", "`rota apps` shows all.")


async def _add(tx: Transaction, statement: ReleaseStatement, build: int | None, making: Making) -> Release:
    entry = written(statement, making.actor)
    new = Release(
        app=statement.app,
        number=statement.number,
        artifact=statement.artifact,
        configuration=statement.configuration,
        text=entry.decode(),
        act=await Outbox.add(tx, entry, making.nudge),
        build=build,
        cause=making.cause,
        actor=making.actor,
    )
    await Releases.add(tx, new)
    made = await Releases.within(tx, new.app, new.number)
    assert made is not None  # noqa: S101 - it was added in this transaction
    return made
