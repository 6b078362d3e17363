"""Instances: each copy that belongs on a server, whether it serves, and why it is there."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from rota.store.database import Database, Row, Transaction
from rota.store.moments import moment
from rota.wire.statements import copy_name


class State(StrEnum):
    """Where a copy stands. The proxy sends to those routed, and to those on standby where none answers."""

    PLACED = "placed"
    STARTED = "started"
    ROUTED = "routed"
    STANDBY = "standby"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True)
class NewInstance:
    """A copy as it is decided. `reasons` is JSON, of `rota.placement.facts.Placed`."""

    name: str
    app: str
    process_type: str
    release: int
    server: str
    port: int
    reasons: str
    deploy: int | None


@dataclass(frozen=True, kw_only=True)
class InstanceRow(NewInstance):
    """A copy as it stands."""

    id: int
    state: State
    created_at: datetime
    changed_at: datetime

    @property
    def copy(self) -> str:
        """Its name and release, as shop.web.1@12."""
        return copy_name(self.name, self.release)

    @property
    def number(self) -> int:
        """Which of its process type it is, from 1."""
        return int(self.name.rpartition(".")[2])


class Instances:
    """Static methods belong to the transaction of their caller."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def live(self, app: str = "") -> list[InstanceRow]:
        """Return every copy of an app, or of all, that has not stopped."""
        return await self._database.read(lambda tx: self.live_within(tx, app))

    async def find(self, copy: int) -> InstanceRow | None:
        """Return a copy by its number, stopped or not."""
        row = await self._database.read(lambda tx: tx.one("instances.find", id=copy))
        return None if row is None else _instance(row)

    async def newest(self, name: str) -> InstanceRow | None:
        """Return the newest copy of an instance, stopped or not."""
        row = await self._database.read(lambda tx: tx.one("instances.newest", name=name))
        return None if row is None else _instance(row)

    async def of_deploy(self, deploy: int) -> list[InstanceRow]:
        """Return every copy that a deploy made."""
        rows = await self._database.read(lambda tx: tx.all("instances.of_deploy", deploy=deploy))
        return [_instance(row) for row in rows]

    @staticmethod
    async def live_within(tx: Transaction, app: str = "") -> list[InstanceRow]:
        """Return the same as this transaction sees it."""
        return [_instance(row) for row in await tx.all("instances.live", app=app)]

    @staticmethod
    async def ports(tx: Transaction) -> dict[str, set[int]]:
        """Return the ports that are taken, by server."""
        taken: dict[str, set[int]] = {}
        for row in await tx.all("instances.ports"):
            taken.setdefault(row["server"], set()).add(row["port"])
        return taken

    @staticmethod
    async def add(tx: Transaction, new: NewInstance) -> int:
        """Add one that is placed; return its number. The database refuses a port that is taken."""
        row = await tx.one(
            "instances.add",
            name=new.name,
            app=new.app,
            process_type=new.process_type,
            release=new.release,
            server=new.server,
            port=new.port,
            reasons=new.reasons,
            deploy=new.deploy,
        )
        assert row is not None  # noqa: S101 - INSERT … RETURNING gives one row
        return int(row["id"])

    @staticmethod
    async def move(tx: Transaction, copies: Iterable[int], state: State) -> None:
        """Say how copies stand now. By number, so that no two movers wait for each other."""
        for each in sorted(copies):
            await tx.run("instances.move", id=each, state=state.value)


def _instance(row: Row) -> InstanceRow:
    return InstanceRow(
        **{
            **row,
            "state": State(row["state"]),
            "created_at": moment(row["created_at"]),
            "changed_at": moment(row["changed_at"]),
        }
    )
