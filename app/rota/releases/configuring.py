"""Changes apps' configuration: each change is an act, a version of the whole, and a release if one serves."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from rota.acts.act import Act
from rota.acts.recorder import perform
from rota.configuration.names import check_whole, checked_name, checked_value
from rota.configuration.vault import sealed_values, size_of
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import ActWaiting
from rota.errors import ConflictError, InputError, NotFoundError
from rota.releases.making import Making, again
from rota.releases.names import checked_app
from rota.store.apps import Apps
from rota.store.builds import Builds
from rota.store.configurations import ConfigurationRow, Configurations
from rota.store.database import Database, Transaction
from rota.store.releases import Release, Releases
from rota.tlog.log import Tlog
from rota.tlog.records import Logged

MOST = 1000  # names of one app


@dataclass(frozen=True, kw_only=True)
class Change:
    """What to set and what to take away. With `expected`, only if that is still the newest version."""

    values: Mapping[str, bytes] = field(default_factory=dict)
    unset: Sequence[str] = ()
    expected: int | None = None


@dataclass(frozen=True)
class Changed:
    """What a change came to: the version, and the release that was made of it, None before the first."""

    number: int
    release: Release | None


class _Manifest(msgspec.Struct):
    """What is looked at of a build's manifest."""

    required: list[str] = msgspec.field(default_factory=list)


class Configuring:
    """Every method raises InputError, NotFoundError or ConflictError for what its caller can mend."""

    def __init__(self, database: Database, tlog: Tlog, bus: Bus) -> None:
        """Act on this hub."""
        self._database = database
        self._tlog = tlog
        self._bus = bus
        self._configurations = Configurations(database)

    async def newest(self, app: str) -> ConfigurationRow:
        """Return an app's newest version: number 0 where nothing was ever set."""
        await self._known(app)
        return await self._configurations.newest(app) or _empty(app)

    async def change(self, actor: str, app: str, change: Change) -> Changed:
        """Make the next version, and the release that has it. An app that is new is made."""
        checked_app(app)
        values = {checked_name(name): checked_value(name, value) for name, value in change.values.items()}
        before = await self._configurations.newest(app) or _empty(app)
        await self._check(app, before, change)
        public = await self._configurations.key()
        if public is None:
            raise ConflictError(
                "No worker of the primary has told yet with which key to seal configuration.",
                "Start one; in a cluster it needs the credential configuration-key.",
            )
        names, sealed = await asyncio.to_thread(sealed_values, app, values, public)
        row = ConfigurationRow(
            app=app,
            number=before.number + 1,
            names=_merged(before.names, names, change.unset),
            sealed=_merged(before.sealed, sealed, change.unset),
            actor=actor,
        )
        details: dict[str, Any] = {"number": row.number, "set": names, "unset": sorted(change.unset)}
        act = Act(kind="config.change", actor=actor, subject=f"app:{app}", details=details)

        async def work(_: Logged) -> Changed:
            return await self._database.write(lambda tx: self._put(tx, row, actor))

        return await perform(self._tlog, act, work)

    async def back(self, actor: str, app: str, number: int | None) -> Release:
        """Make a release of an earlier one, without a number of the one that served before."""
        checked_app(app)

        async def work(tx: Transaction) -> Release:
            row = await Apps.hold(tx, app)
            if row is None:
                raise _no_app(app)
            if row.release is None:
                raise ConflictError(f"Nothing of {app} serves yet.", f"Deploy it: `rota deploy {app}`.")
            if number is None:
                old = await Releases.previous(tx, app, row.release)
            else:
                old = await Releases.within(tx, app, number)
            shown = f"`rota releases {app}` shows those that one can go back to."
            if old is None:
                what = "release that served before" if number is None else f"release {number}"
                raise NotFoundError(f"{app} has no {what}.", shown)
            if old.number == row.release:
                raise ConflictError(f"{app} v{old.number} serves already.", shown)
            if not old.served:
                raise ConflictError(f"{app} v{old.number} never served.", shown)
            return await again(tx, old, self._making(f"rollback to {old.number}", actor))

        return await self._database.write(work)

    async def _put(self, tx: Transaction, row: ConfigurationRow, actor: str) -> Changed:
        await Apps.add(tx, row.app)
        app = await Apps.hold(tx, row.app)
        if not await Configurations.add(tx, row):
            raise _moved(row.app)
        current = await Releases.within(tx, row.app, app.release) if app and app.release else None
        if current is None:
            return Changed(row.number, None)
        made = await again(tx, current, self._making("config", actor), configuration=row.number)
        return Changed(row.number, made)

    async def _check(self, app: str, before: ConfigurationRow, change: Change) -> None:
        """Refuse what cannot be done before it stands in the log."""
        if not change.values and not change.unset:
            raise InputError("Nothing is to be set or taken away.", "Name a value.")
        if change.expected is not None and change.expected != before.number:
            raise _moved(app)
        for name in change.unset:
            if name not in before.names:
                raise NotFoundError(
                    f"{app} has no value {name}.", f"`rota config get {app}` shows its names."
                )
            if name in change.values:
                raise InputError(f"{name} is both to be set and to be taken away.", "Name it once.")
        needed = set(change.unset) & set(await self._required(app))
        if needed:
            raise ConflictError(
                f"{app} cannot run without {', '.join(sorted(needed))}: its rota.toml says required.",
                "Set another value, or deploy a source that does not require it.",
            )
        sizes = {name: size_of(sealed) for name, sealed in before.sealed.items() if name not in change.unset}
        sizes |= {name: len(value) for name, value in change.values.items()}
        if len(sizes) > MOST:
            raise InputError(f"An app has {MOST} values at most.", "Take some away first.")
        check_whole(sizes)

    async def _required(self, app: str) -> list[str]:
        row = await Apps(self._database).find(app)
        if row is None or row.release is None:
            return []
        release = await Releases(self._database).find(app, row.release)
        build = await Builds(self._database).find(release.build) if release and release.build else None
        return msgspec.json.decode(build.manifest, type=_Manifest).required if build else []

    async def _known(self, app: str) -> None:
        if await Apps(self._database).find(checked_app(app)) is None:
            raise _no_app(app)

    def _making(self, cause: str, actor: str) -> Making:
        return Making(cause, actor, partial(self._bus.publish, ActWaiting()))


def no_value(app: str, name: str) -> NotFoundError:
    """Return what to raise for a value that is not there."""
    return NotFoundError(f"{app} has no value {name[:80]}.", f"`rota config get {app}` shows its names.")


def _merged(before: Mapping[str, str], new: Mapping[str, str], unset: Sequence[str]) -> dict[str, str]:
    return {name: each for name, each in {**before, **new}.items() if name not in unset}


def _empty(app: str) -> ConfigurationRow:
    return ConfigurationRow(app=app, number=0, names={}, sealed={}, actor="")


def _moved(app: str) -> ConflictError:
    return ConflictError(
        f"Somebody has changed the configuration of {app} meanwhile.", "Look at it, and try again."
    )


def _no_app(app: str) -> NotFoundError:
    return NotFoundError(f"There is no app {app}.", "`rota apps` shows all; `rota deploy` makes one.")
