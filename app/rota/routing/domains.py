"""What people do with apps' names and gates. Each is an act: in the log before it is done and answered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rota.access.names import is_account_name
from rota.acts.act import Act
from rota.acts.recorder import perform
from rota.configuration.vault import Sealer, about, new_identity
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import Live
from rota.errors import ConflictError, InputError, NotFoundError
from rota.routing.gate import gate_keys
from rota.routing.names import host_name
from rota.settings import Settings
from rota.store.apps import Apps
from rota.store.certificates import Certificates, Kept
from rota.store.configurations import Configurations
from rota.store.database import Database, Transaction
from rota.store.domains import Domain, Domains, Source
from rota.store.gates import Gate, Gates
from rota.store.routes import Routes
from rota.tlog.log import Tlog
from rota.tlog.records import Logged

SEALED = "certificate"  # what a sealed private key is about, beside its name


@dataclass(frozen=True, kw_only=True)
class WantedDomain:
    """A name as it is asked for; with a certificate and its key in PEM, or one from the authority."""

    app: str
    name: str
    acme: bool = False
    certificate: str = ""
    key: str = field(default="", repr=False)


class Naming:
    """Every method raises InputError, NotFoundError or ConflictError for what its caller can mend."""

    def __init__(self, settings: Settings, database: Database, tlog: Tlog, bus: Bus) -> None:
        """Act on this hub."""
        self._settings = settings
        self._database = database
        self._tlog = tlog
        self._bus = bus
        self._domains = Domains(database)
        self._gates = Gates(database)
        self._configurations = Configurations(database)

    async def add(self, actor: str, wanted: WantedDomain) -> Domain:
        """Give a name to an app, or another certificate to a name that it has."""
        name = host_name(wanted.name)
        await self._refuse(wanted, name)
        kept = await self._sealed(name, wanted)
        source = Source.FILE if kept else Source.ACME if wanted.acme else Source.NONE

        async def change(tx: Transaction) -> None:
            if not await Domains.add(tx, name, wanted.app, source, actor):
                raise _taken(name)
            if kept is not None:
                await Certificates.put(tx, kept)
            elif source is Source.NONE:
                await Certificates.remove(tx, name)
            await Routes.want(tx, wanted.app)

        async def work(_: Logged) -> Domain:
            await self._database.write(change)
            found = await self._domains.find(name)
            assert found is not None  # noqa: S101 - written just now
            return found

        details = {"name": name, "source": source.value}
        if kept is not None:
            details["fingerprint"] = kept.fingerprint
        made = await perform(self._tlog, _act("domain.add", actor, wanted.app, details), work)
        self._say(wanted.app)
        return made

    async def remove(self, actor: str, given: str) -> Domain:
        """Take a name from its app, with its certificate."""
        name = host_name(given)
        found = await self._domains.find(name)
        if found is None:
            raise NotFoundError(f"No app has the name {name}.", "`rota domain list` shows all.")

        async def change(tx: Transaction) -> None:
            await Domains.remove(tx, name, found.app)
            await Certificates.remove(tx, name)
            await Routes.want(tx, found.app)

        async def work(_: Logged) -> None:
            await self._database.write(change)

        await perform(self._tlog, _act("domain.remove", actor, found.app, {"name": name}), work)
        self._say(found.app)
        return found

    async def gate(self, actor: str, app: str, allowed: tuple[str, ...], *, shut: bool) -> Gate:
        """Let only those in who are signed in, or only the accounts allowed; or everybody again."""
        await self._app(app)
        for account in allowed:
            if not is_account_name(account):
                raise InputError(f"{account!r} is no name of an account.", "`rota admin list` shows all.")
        if shut:
            gate_keys(self._settings)  # without one nobody would ever be let in

        async def change(tx: Transaction) -> None:
            await Gates.put(tx, app, allowed, shut=shut)
            await Apps.gate(tx, app, gated=shut)
            await Routes.want(tx, app)

        async def work(_: Logged) -> Gate:
            await self._database.write(change)
            found = await self._gates.find(app)
            assert found is not None  # noqa: S101 - written just now
            return found

        details = {"shut": shut, "allowed": sorted(set(allowed))}
        made = await perform(self._tlog, _act("gate.change", actor, app, details), work)
        self._say(app)
        return made

    async def _refuse(self, wanted: WantedDomain, name: str) -> None:
        await self._app(wanted.app)
        found = await self._domains.find(name)
        if found is not None and found.app != wanted.app:
            raise _taken(name)
        own = self._settings.routing.domain
        if own and (name == host_name(own) or name.endswith(f".{host_name(own)}")):
            raise ConflictError(
                f"Names below {own} are given to apps by themselves, each its own.",
                f"{wanted.app} is reached at {wanted.app}.{own}; give it a name of another domain.",
            )
        if wanted.acme and not self._settings.routing.acme_directory:
            raise ConflictError(
                "This hub knows no certificate authority.",
                "Set routing.acme_directory, or give a certificate.",
            )
        if bool(wanted.certificate) != bool(wanted.key) or (wanted.acme and wanted.certificate):
            raise InputError(
                "A certificate goes with its key, and one from a file with none of an authority.",
                "Give --certificate and --key, or --acme, or neither.",
            )

    async def _sealed(self, name: str, wanted: WantedDomain) -> Kept | None:
        if not wanted.certificate:
            return None
        from rota.routing.certificates import checked  # noqa: PLC0415 - most requests need no X.509

        found = checked(name, wanted.certificate, wanted.key, datetime.now(UTC))
        public = await self._configurations.key()
        if public is None:
            raise ConflictError(
                "Nobody could open the key yet: the primary's worker has not told to what it is sealed.",
                "See that a worker runs on the primary, then try again.",
            )
        identity = new_identity()
        sealed = Sealer(public).seal(about(name, SEALED, identity), found.key.encode())
        return Kept(
            name=name,
            chain=found.chain,
            key=sealed,
            identity=identity,
            fingerprint=found.fingerprint,
            begins_at=found.begins_at,
            ends_at=found.ends_at,
        )

    async def _app(self, app: str) -> None:
        if await Apps(self._database).find(app) is None:
            raise NotFoundError(f"There is no app {app}.", "`rota apps` shows all.")

    def _say(self, app: str) -> None:
        self._bus.publish(Live(f"app:{app}", "routes"))


def _taken(name: str) -> ConflictError:
    return ConflictError(
        f"{name} is another app's name.", f"`rota domain remove {name}` takes it from that one first."
    )


def _act(kind: str, actor: str, app: str, details: Mapping[str, object]) -> Act:
    return Act(kind=kind, actor=actor, subject=f"app:{app}", details=details)
