"""Servers: who is enrolled, with which keys, and what each last reported."""

from dataclasses import dataclass
from datetime import datetime

import msgspec

from rota.store.database import Database, Row, Transaction
from rota.store.moments import moment, moment_or_none
from rota.wire.rotation import KnownKey
from rota.wire.statements import Capabilities, Enrol, InstanceReport, Report

ENROLLED = "enrolled"


@dataclass(frozen=True, kw_only=True)
class ServerRow:
    """One server. `capabilities` and `report` are None before it has said them."""

    name: str
    address: str
    endpoint: str
    state: str  # awaited, enrolled, removed
    is_primary: bool
    distribution: str
    capabilities: Capabilities | None
    agent_version: str
    wireguard_key: str
    first_port: int
    ports: int
    report: Report | None
    session_in: str
    session_out: str
    seq_out: int
    hub_key: str
    token_ends_at: datetime | None
    enrolled_at: datetime | None
    reported_at: datetime | None
    lost_at: datetime | None

    @property
    def lost(self) -> bool:
        """Whether its reports are missing."""
        return self.lost_at is not None


@dataclass(frozen=True, kw_only=True)
class Reported:
    """One copy of an instance, as its server last said."""

    server: str
    instance: str
    app: str
    release: int
    state: str
    healthy: bool
    address: str
    port: int
    restarts: int
    reason: str
    since: datetime


@dataclass(frozen=True)
class Identity:
    """Whom servers' messages are meant for, and the database's time."""

    audience: str
    generation: int
    now: datetime


@dataclass(frozen=True)
class KeyOwner:
    """Whose key one is, by the database's time `now`."""

    server: str
    key: KnownKey
    now: datetime


@dataclass(frozen=True)
class Awaited:
    """An enrolment as the operator begins it; the token is its hash in hex, good for `lasts` seconds."""

    name: str
    address: str
    token: str
    lasts: int
    endpoint: str = ""
    wireguard_key: str = ""
    is_primary: bool = False


@dataclass(frozen=True)
class Heard:
    """When a server was last heard of, and whether it counts as lost."""

    name: str
    reported_at: datetime | None
    lost: bool
    now: datetime


class Servers:
    """What takes a transaction belongs to its caller's unit of work."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def identity(self) -> Identity:
        """Return who this hub is to its servers."""
        row = await self._database.read(lambda tx: tx.one("servers.hub"))
        assert row is not None  # noqa: S101 - the first migration puts the row there
        return Identity(f"hub:{row['identity']}", int(row["generation"]), moment(row["now"]))

    async def hub_keys(self) -> list[str]:
        """Return the public keys that sign the hub's messages, the one in use first."""
        return [row["public_key"] for row in await self._database.read(lambda tx: tx.all("servers.hub_keys"))]

    @staticmethod
    async def publish_keys(tx: Transaction, keys: list[str]) -> None:
        """Say with which keys the hub signs, the one in use first."""
        await tx.run("servers.drop_hub_keys")
        for rank, key in enumerate(keys):
            await tx.run("servers.add_hub_key", public_key=key, rank=rank)

    async def all(self) -> list[ServerRow]:
        """Return every server, by name."""
        return await self._database.read(self.within)

    @staticmethod
    async def within(tx: Transaction) -> list[ServerRow]:
        """Return every server, as this transaction sees them."""
        return [_server(row) for row in await tx.all("servers.all")]

    async def find(self, name: str) -> ServerRow | None:
        """Return one, None where it is not there."""
        row = await self._database.read(lambda tx: tx.one("servers.find", name=name))
        return None if row is None else _server(row)

    async def reported(self, app: str = "") -> list[Reported]:
        """Return every copy of an app's instances, or of all apps', that a server has last reported."""
        rows = await self._database.read(lambda tx: tx.all("servers.instances", app=app))
        return [_reported(row) for row in rows]

    async def heard(self) -> list[Heard]:
        """Return when each enrolled server was last heard of, by the database's clock."""
        rows = await self._database.read(lambda tx: tx.all("servers.heard"))
        return [
            Heard(row["name"], moment_or_none(row["reported_at"]), bool(row["lost"]), moment(row["now"]))
            for row in rows
        ]

    @staticmethod
    async def wait_for(tx: Transaction, awaited: Awaited) -> None:
        """Begin an enrolment; one begun before for the same name is void."""
        await tx.run(
            "servers.await",
            name=awaited.name,
            address=awaited.address,
            endpoint=awaited.endpoint,
            is_primary=awaited.is_primary,
            token=awaited.token,
            lasts=awaited.lasts,
            wireguard_key=awaited.wireguard_key,
        )

    @staticmethod
    async def at_address(tx: Transaction, address: str) -> str | None:
        """Return whose private address this is."""
        row = await tx.one("servers.at_address", address=address)
        return None if row is None else str(row["name"])

    @staticmethod
    async def token(tx: Transaction, name: str) -> tuple[str | None, bool] | None:
        """Return the hash of a server's token, None once used, and whether its time is over."""
        row = await tx.one("servers.token", name=name)
        return None if row is None else (row["token"], bool(row["ended"]))

    @staticmethod
    async def enrol(tx: Transaction, enrol: Enrol, token: str, session: str, hub_key: str) -> bool:
        """Complete an enrolment with its token's hash; False where the token is not good."""
        done = await tx.run(
            "servers.enrol",
            name=enrol.name,
            token=token,
            distribution=enrol.distribution,
            capabilities=msgspec.json.encode(enrol.capabilities).decode(),
            agent_version=enrol.agent_version,
            wireguard_key=enrol.wireguard_key,
            session_in=session,
            session_out=enrol.session,
            hub_key=hub_key,
        )
        if done != 1:
            return False
        await tx.run("servers.end_keys", server=enrol.name, public_key=enrol.public_key)
        return await tx.run("servers.add_key", server=enrol.name, public_key=enrol.public_key) == 1

    @staticmethod
    async def rotate(tx: Transaction, server: str, key: str, days: int, *, ends: bool) -> None:
        """Take a server's new key; its others are good for some days more, or with `ends` never again."""
        await tx.run("servers.add_key", server=server, public_key=key)
        if ends:
            await tx.run("servers.end_keys", server=server, public_key=key)
        else:
            await tx.run("servers.replace_key", server=server, public_key=key, days=days)

    async def owner(self, public: str) -> KeyOwner | None:
        """Return whose key this is or was."""
        row = await self._database.read(lambda tx: tx.one("servers.by_key", public_key=public))
        if row is None:
            return None
        return KeyOwner(row["server"], _key(row), moment(row["now"]))

    async def keys(self, server: str) -> list[KnownKey]:
        """Return every key that a server ever had, the oldest first."""
        rows = await self._database.read(lambda tx: tx.all("servers.keys", server=server))
        return [_key(row) for row in rows]

    @staticmethod
    async def lock(tx: Transaction, name: str) -> Row | None:
        """Return what judges a server's next message, and keep it until the transaction ends."""
        return await tx.one("servers.lock", name=name)

    @staticmethod
    async def number(tx: Transaction, name: str, seq: int) -> None:
        """Note the last number taken from a server."""
        await tx.run("servers.number_in", name=name, seq=seq)

    @staticmethod
    async def report(tx: Transaction, name: str, seq: int, report: Report, before: str) -> bool:
        """Keep a report; return whether what it says of instances differs from the one `before`."""
        text = msgspec.json.encode(report).decode()
        await tx.run("servers.report", name=name, seq=seq, report=text, agent_version=report.agent_version)
        known = _report(before)
        if known is not None and known.instances == report.instances:
            return False
        await tx.run("servers.forget_instances", server=name)
        for instance in report.instances:
            await tx.run("servers.put_instance", **_instance(name, instance))
        return True

    @staticmethod
    async def lose(tx: Transaction, heard: Heard, reported_at: int) -> bool:
        """Mark a server lost that has not been heard of since; False where it has, or is lost already."""
        return await tx.run("servers.lose", name=heard.name, reported_at=reported_at) == 1

    @staticmethod
    async def knows(tx: Transaction, name: str, hub_key: str) -> None:
        """Note which of the hub's keys a server knows."""
        await tx.run("servers.sent_key", name=name, hub_key=hub_key)


def _server(row: Row) -> ServerRow:
    moments = ("token_ends_at", "enrolled_at", "reported_at", "lost_at")
    read = {name: moment_or_none(row[name]) for name in moments}
    known = row["capabilities"] != "{}"
    capabilities = msgspec.json.decode(row["capabilities"], type=Capabilities) if known else None
    own = {
        "capabilities": capabilities,
        "report": _report(row["report"]),
        "is_primary": bool(row["is_primary"]),
    }
    return ServerRow(**{**row, **read, **own})


def _report(text: str) -> Report | None:
    try:
        return None if not text else msgspec.json.decode(text, type=Report)
    except msgspec.MsgspecError:
        return None  # an older or newer program's; the next report replaces it


def _reported(row: Row) -> Reported:
    return Reported(**{**row, "healthy": bool(row["healthy"]), "since": moment(row["since"])})


def _key(row: Row) -> KnownKey:
    return KnownKey(row["public_key"], moment_or_none(row["ends_at"]), bool(row["revoked"]))


def _instance(server: str, instance: InstanceReport) -> dict[str, object]:
    reason = instance.reason
    if instance.last_lines:
        reason = f"{reason}\n{instance.last_lines}"
    return {
        "server": server,
        "instance": instance.instance,
        "app": instance.instance.partition(".")[0],
        "release": instance.release,
        "state": instance.state,
        "healthy": instance.healthy,
        "address": instance.address,
        "port": instance.port,
        "restarts": instance.restarts,
        "reason": reason,
    }
