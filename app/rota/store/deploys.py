"""Deploys and their steps. The database keeps it to one unfinished deploy for each app."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from rota.store.database import Database, Row, Transaction
from rota.store.moments import moment, moment_or_none


@dataclass(frozen=True, kw_only=True)
class DeployRow:
    """One deploy. `before` is the release that served when it began; `asked` and `plan` are JSON objects."""

    id: int
    app: str
    cause: str  # deploy, config, rollback, scale, pin
    release: int | None
    before: int | None
    build: int | None
    state: str  # running, done, failed, cancelled
    cancelling: bool
    actor: str
    asked: Mapping[str, Any]
    plan: Mapping[str, Any]
    reason: str
    created_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """One step. `work` is what it has noted for itself, so that it can go on after any fault."""

    number: int
    kind: str
    work: Mapping[str, Any]
    state: str  # waiting, running, done, failed, skipped
    reason: str
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class NewDeploy:
    """A deploy as it is asked for."""

    app: str
    cause: str
    actor: str
    before: int | None
    release: int | None = None
    build: int | None = None
    asked: Mapping[str, Any]


class Deploys:
    """Static methods belong to the transaction of their caller."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def find(self, deploy: int) -> DeployRow | None:
        """Return one, None where it is not there."""
        return await self._database.read(lambda tx: self.within(tx, deploy))

    @staticmethod
    async def within(tx: Transaction, deploy: int) -> DeployRow | None:
        """Return one as this transaction sees it."""
        row = await tx.one("deploys.find", id=deploy)
        return None if row is None else _deploy(row)

    async def running(self, app: str = "") -> list[DeployRow]:
        """Return the unfinished deploy of an app, or those of all."""
        return await self._database.read(lambda tx: self.running_within(tx, app))

    @staticmethod
    async def running_within(tx: Transaction, app: str = "") -> list[DeployRow]:
        """Return the same as this transaction sees it."""
        return [_deploy(row) for row in await tx.all("deploys.running", app=app)]

    async def of(self, app: str, limit: int = 20) -> list[DeployRow]:
        """Return the newest deploys of an app, the newest first."""
        rows = await self._database.read(lambda tx: tx.all("deploys.of", app=app, limit=limit))
        return [_deploy(row) for row in rows]

    async def steps(self, deploy: int) -> list[StepRow]:
        """Return the steps of a deploy, in order."""
        rows = await self._database.read(lambda tx: tx.all("deploys.steps", deploy=deploy))
        return [_step(row) for row in rows]

    @staticmethod
    async def add(tx: Transaction, new: NewDeploy) -> int | None:
        """Begin one; None where the app has an unfinished one."""
        values = {"app": new.app, "cause": new.cause, "actor": new.actor, "before": new.before}
        row = await tx.one(
            "deploys.add", release=new.release, build=new.build, asked=_json(new.asked), **values
        )
        return None if row is None else int(row["id"])

    @staticmethod
    async def add_step(tx: Transaction, deploy: int, number: int, kind: str) -> None:
        """Add a step; one that is there stays as it is."""
        await tx.run("deploys.add_step", deploy=deploy, number=number, kind=kind, work="{}")

    async def begin_step(self, deploy: int, number: int) -> None:
        """Say that a step runs."""
        await self._database.write(lambda tx: tx.run("deploys.begin_step", deploy=deploy, number=number))

    @staticmethod
    async def note(tx: Transaction, deploy: int, number: int, work: Mapping[str, Any]) -> None:
        """Note what a step must know if it is taken up again."""
        await tx.run("deploys.work_step", deploy=deploy, number=number, work=_json(work))

    @staticmethod
    async def end_step(tx: Transaction, deploy: int, number: int, state: str, reason: str = "") -> None:
        """Say how a step ended."""
        await tx.run("deploys.end_step", deploy=deploy, number=number, state=state, reason=reason)

    @staticmethod
    async def set_release(tx: Transaction, deploy: int, release: int) -> None:
        """Say which release a deploy moves the app to."""
        await tx.run("deploys.set_release", id=deploy, release=release)

    @staticmethod
    async def set_plan(tx: Transaction, deploy: int, plan: Mapping[str, Any]) -> None:
        """Keep the plan as it was shown."""
        await tx.run("deploys.set_plan", id=deploy, plan=_json(plan))

    @staticmethod
    async def cancel(tx: Transaction, deploy: int) -> bool:
        """Ask for an end; False where it has ended."""
        return await tx.run("deploys.cancel", id=deploy) == 1

    @staticmethod
    async def end(tx: Transaction, deploy: int, state: str, reason: str = "") -> bool:
        """End one; False where it has ended."""
        return await tx.run("deploys.end", id=deploy, state=state, reason=reason) == 1


class Waiting:
    """Why something waits, as the newest look found it."""

    def __init__(self, database: Database) -> None:
        """Keep it in this database."""
        self._database = database

    async def all(self) -> dict[str, str]:
        """Return the reasons by what waits: an instance, a run, a server's orders."""
        rows = await self._database.read(lambda tx: tx.all("deploys.waiting"))
        return {row["subject"]: row["reason"] for row in rows}

    @staticmethod
    async def replace(tx: Transaction, reasons: Mapping[str, str]) -> bool:
        """Keep these reasons and no others; return whether anything changed."""
        known = {row["subject"]: row["reason"] for row in await tx.all("deploys.waiting")}
        for subject in sorted(known.keys() - reasons.keys()):
            await tx.run("deploys.wait_no_more", subject=subject)
        for subject, reason in sorted(reasons.items()):
            if known.get(subject) != reason:
                await tx.run("deploys.wait", subject=subject, reason=reason)
        return known != dict(reasons)


def _json(value: Mapping[str, Any]) -> str:
    return msgspec.json.encode(value).decode()


def _deploy(row: Row) -> DeployRow:
    return DeployRow(
        **{
            **row,
            "cancelling": bool(row["cancelling"]),
            "asked": msgspec.json.decode(row["asked"]),
            "plan": msgspec.json.decode(row["plan"]),
            "created_at": moment(row["created_at"]),
            "ended_at": moment_or_none(row["ended_at"]),
        }
    )


def _step(row: Row) -> StepRow:
    return StepRow(
        **{
            **row,
            "work": msgspec.json.decode(row["work"]),
            "started_at": moment_or_none(row["started_at"]),
            "ended_at": moment_or_none(row["ended_at"]),
        }
    )
