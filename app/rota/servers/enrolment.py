"""The operator's side of an enrolment, and its completion by the server."""

import hashlib
import ipaddress
import re
import secrets
from dataclasses import dataclass, replace

from rota.acts.act import Act
from rota.acts.recorder import perform
from rota.errors import ConflictError, InputError
from rota.settings import Settings
from rota.store.database import Database, Transaction
from rota.store.servers import Awaited, ServerRow, Servers
from rota.store.tlog import Outbox
from rota.tlog.log import Tlog
from rota.tlog.records import Logged
from rota.wire.channel import Statement
from rota.wire.errors import WireError
from rota.wire.statements import Enrol, Enrolled

LASTS = 15 * 60  # seconds that a token is good for
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_ENDPOINT = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]{1,253})(:[0-9]{1,5})?", re.ASCII)
_WIREGUARD = re.compile(r"[A-Za-z0-9+/]{43}=", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Invitation:
    """What a host must be given to enrol; the token stands here this once."""

    name: str
    address: str
    token: str
    hub: str
    url: str
    hub_keys: list[str]
    log_key: str


class EnrolmentRefusedError(WireError):
    """An enrolment is refused; the reason is for both sides."""

    code = "enrolment"


class Enrolments:
    """Begins and completes enrolments, each as an act."""

    def __init__(self, settings: Settings, database: Database, tlog: Tlog, log_key: str) -> None:
        """Enrol servers of this hub; `log_key` is the vkey of its transparency log."""
        self._settings = settings
        self._database = database
        self._tlog = tlog
        self._log_key = log_key
        self._servers = Servers(database)

    async def begin(self, actor: str, wanted: Awaited) -> Invitation:
        """Await a server. `wanted` comes without its token, which is made here.

        Raises InputError for what cannot be, ConflictError where something is in the way.
        """
        awaited, invitation = await self._prepared(wanted)

        async def work(_: Logged) -> None:
            await self._database.write(lambda tx: _await(tx, awaited))

        await perform(self._tlog, _begun(actor, awaited), work)
        return invitation

    async def begin_here(self, actor: str, wanted: Awaited) -> Invitation:
        """Do the same on a host of the hub, whose act a web process puts into the log."""
        awaited, invitation = await self._prepared(wanted)

        async def work(tx: Transaction) -> None:
            await _await(tx, awaited)
            await Outbox.add(tx, bytes(_begun(actor, awaited)))

        await self._database.write(work)
        return invitation

    async def _prepared(self, wanted: Awaited) -> tuple[Awaited, Invitation]:
        _check(wanted)
        url = reached_at(self._settings)
        identity, keys = await self._servers.identity(), await self._servers.hub_keys()
        if not keys:
            raise ConflictError(
                "The hub has no key yet with which it signs what it tells servers.",
                "The primary's worker publishes it when it starts: look at its journal, then try again.",
            )
        token = secrets.token_urlsafe(32)
        awaited = replace(wanted, token=hashed(token), lasts=LASTS)
        invitation = Invitation(
            name=wanted.name,
            address=wanted.address,
            token=token,
            hub=identity.audience,
            url=url,
            hub_keys=keys,
            log_key=self._log_key,
        )
        return awaited, invitation

    async def complete(self, statement: Statement, primary: ServerRow | None) -> Enrolled:
        """Complete an enrolment that its own key has signed. Raises EnrolmentRefusedError."""
        enrol = statement.body
        assert isinstance(enrol, Enrol)  # noqa: S101 - `read_enrol` gives no other
        if primary is not None and primary.distribution and primary.distribution != enrol.distribution:
            raise EnrolmentRefusedError(
                f"{enrol.name} runs {enrol.distribution} and the primary {primary.distribution}: an artifact "
                "runs on the release that it was built on. Install that release on the server"
            )
        keys = await self._servers.hub_keys()
        if not keys:
            raise EnrolmentRefusedError("the hub has no key yet: try again when its worker runs")
        session = secrets.token_hex(16)

        async def work(tx: Transaction) -> str:
            before = await Servers.lock(tx, enrol.name)
            found = await Servers.token(tx, enrol.name)
            if before is None or found is None:
                raise EnrolmentRefusedError(
                    f"no server {enrol.name} is awaited: begin with `rota server enrol {enrol.name}`"
                )
            owner = await tx.one("servers.by_key", public_key=enrol.public_key)
            if owner is not None and owner["server"] == enrol.name and before["seq_in"] == 0:
                known = await tx.one("servers.find", name=enrol.name)
                if known and known["session_out"] == enrol.session and not owner["revoked"]:
                    return str(known["session_in"])  # its answer was lost: nothing changes
            _refuse(enrol, found, owner)
            if not await Servers.enrol(tx, enrol, hashed(enrol.token), session, keys[0]):
                raise EnrolmentRefusedError(
                    "the token is not good, or its key was taken away from a server: begin anew"
                )
            done = Act(
                kind="server.enrolled",
                actor=f"server {enrol.name}",
                subject=enrol.name,
                details={"distribution": enrol.distribution, "key": enrol.public_key},
            )
            await Outbox.add(tx, bytes(done))
            return session

        session = await self._database.write(work)
        identity, row = await self._servers.identity(), await self._servers.find(enrol.name)
        if row is None:
            raise EnrolmentRefusedError(f"{enrol.name} was taken away just now")
        return Enrolled(
            hub=identity.audience,
            hub_keys=keys,
            session=session,
            first_port=row.first_port,
            ports=row.ports,
            report_every=self._settings.servers.report_every,
            log_key=self._log_key,
            primary_address=primary_address(self._settings),
        )


def hashed(token: str) -> str:
    """Return a token as it is kept."""
    return hashlib.sha256(token.encode()).hexdigest()


def reached_at(settings: Settings) -> str:
    """Return where agents reach the hub."""
    return settings.servers.hub.rstrip("/") or f"http://{settings.address}"


def primary_address(settings: Settings) -> str:
    """Return the private address of the primary."""
    if settings.servers.address:
        return settings.servers.address
    host = reached_at(settings).partition("://")[2].rpartition(":")[0]
    return host.strip("[]") or "127.0.0.1"


def _refuse(enrol: Enrol, found: tuple[str | None, bool], owner: object) -> None:
    token, ended = found
    if token is None:
        raise EnrolmentRefusedError(
            f"the token of {enrol.name} has been used: begin anew with `rota server enrol {enrol.name}`"
        )
    if not secrets.compare_digest(token, hashed(enrol.token)):
        raise EnrolmentRefusedError(f"this is not the token of {enrol.name}")
    if ended:
        raise EnrolmentRefusedError(
            f"the token of {enrol.name} was good for {LASTS // 60} minutes, which are over: begin anew with "
            f"`rota server enrol {enrol.name}`"
        )
    if isinstance(owner, dict) and owner["server"] != enrol.name:
        raise EnrolmentRefusedError("its key is another server's: a host makes its own, delete the copy")


def _begun(actor: str, awaited: Awaited) -> Act:
    details = {"address": awaited.address, "endpoint": awaited.endpoint}
    return Act(kind="server.enrol", actor=actor, subject=awaited.name, details=details)


async def _await(tx: Transaction, awaited: Awaited) -> None:
    other = await Servers.at_address(tx, awaited.address)
    if other not in (None, awaited.name):
        raise ConflictError(
            f"{awaited.address} is the address of {other}.", "Give each server a private address of its own."
        )
    await Servers.wait_for(tx, awaited)


def _check(wanted: Awaited) -> None:
    if not _NAME.fullmatch(wanted.name):
        raise InputError(
            f"{wanted.name[:80]!r} cannot name a server.",
            "Take lower-case letters, digits and -, 63 at most, as s2.",
        )
    try:
        address = ipaddress.ip_address(wanted.address)
    except ValueError:
        raise InputError(
            f"{wanted.address[:80]!r} is no address.",
            "Give its address in the private network, as 10.98.0.6.",
        ) from None
    if address.is_unspecified or address.is_multicast:
        raise InputError(f"{address} is no host's address.", "Give its address in the private network.")
    if wanted.endpoint and not _ENDPOINT.fullmatch(wanted.endpoint):
        raise InputError(
            f"{wanted.endpoint[:80]!r} is no endpoint.", "Write HOST or HOST:PORT, as 192.0.2.20:51820."
        )
    if wanted.wireguard_key and not _WIREGUARD.fullmatch(wanted.wireguard_key):
        raise InputError(
            "This is no public key of WireGuard.", "Give what `wg pubkey` prints: 43 signs and a =."
        )
