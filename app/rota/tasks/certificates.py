"""`routing.certificates`: orders and renews certificates, and looks whether the proxy serves the newest."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import structlog

from rota.acts.act import Act
from rota.configuration.vault import Sealer, Vault, about, new_identity
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import ActWaiting, Live
from rota.coordination.leader import Term
from rota.errors import ConflictError, InputError, KeyFileError, UnreachableError
from rota.routing.certificates import AuthorityError, Checked, checked, request_for, served_by
from rota.routing.domains import SEALED
from rota.settings import Settings
from rota.store.certificates import AcmeAccount, Certificates, Kept, Order
from rota.store.database import Database, Transaction
from rota.store.domains import Domain, Domains, Source
from rota.store.tlog import Outbox

if TYPE_CHECKING:
    from rota.routing.authority import Authority

LOOK = 20.0  # seconds between two looks
FIRST, LONGEST = timedelta(minutes=1), timedelta(hours=6)  # from a failed order to the next
ACCOUNT = "account"  # what a sealed account key is about, beside its directory

log = structlog.get_logger("rota.routing")


def due(kept: Kept | None, order: Order | None, now: datetime) -> bool:
    """Tell whether a name's certificate should be ordered: none yet, or the last third of its time."""
    if order is not None and now - order.tried_at < min(LONGEST, FIRST * 2 ** min(order.tries - 1, 10)):
        return False
    return kept is None or now > kept.ends_at - (kept.ends_at - kept.begins_at) / 3


class Keeper:
    """Keeps every name's certificate good, and knows whether it is served."""

    def __init__(self, settings: Settings, database: Database, bus: Bus) -> None:
        """Keep this hub's."""
        self._settings = settings
        self._database = database
        self._bus = bus
        self._authority: Authority | None = None
        self._domains = Domains(database)
        self._certificates = Certificates(database)
        self._vault = Vault(settings)
        self._unserved: set[str] = set()

    async def __call__(self, term: Term) -> None:
        """Keep them until asked to stop."""
        while True:
            try:
                await self.look(term)
            except UnreachableError:
                pass  # what is served stays
            except (ConflictError, KeyFileError) as error:
                log.warning("no certificates are kept", reason=str(error))
            if await term.pause(LOOK):
                return

    async def look(self, term: Term) -> None:
        """Look at each once. Raises ConflictError and KeyFileError where this hub has no key to seal with."""
        domains = {each.name: each for each in await self._domains.all()}
        kept = {each.name: each for each in await self._certificates.all()}
        orders = await self._certificates.orders()
        now = datetime.now(UTC)
        for name, domain in domains.items():
            wanted = domain.source is Source.ACME and self._settings.routing.acme_directory
            if wanted and due(kept.get(name), orders.get(name), now):
                term.check()
                await self._order(domain, term)
        if self._settings.routing.proxy != "none":
            for each in kept.values():
                if each.name in domains:
                    await self._probe(each, term)

    async def _order(self, domain: Domain, term: Term) -> None:
        try:
            found = await self._ordered(domain.name, term)
        except (AuthorityError, InputError) as error:
            log.warning("no certificate", name=domain.name, reason=str(error))
            await self._certificates.tried(domain.name, str(error), term.fence)
            return
        identity = new_identity()
        sealed = Sealer(self._vault.public).seal(about(domain.name, SEALED, identity), found.key.encode())
        new = Kept(
            name=domain.name,
            chain=found.chain,
            key=sealed,
            identity=identity,
            fingerprint=found.fingerprint,
            begins_at=found.begins_at,
            ends_at=found.ends_at,
        )
        act = Act(
            kind="certificate.renew",
            actor="routing.certificates",
            subject=f"app:{domain.app}",
            details={"name": domain.name, "fingerprint": found.fingerprint},
        )

        async def work(tx: Transaction) -> None:
            await Certificates.put(tx, new)
            await Outbox.add(tx, bytes(act))

        await self._database.write(work, term.fence)
        log.info("certificate renewed", name=domain.name, ends_at=str(found.ends_at))
        self._bus.publish(ActWaiting())
        self._bus.publish(Live(f"app:{domain.app}", "routes"))

    async def _ordered(self, name: str, term: Term) -> Checked:
        authority = await self._known(term)
        key, request = await asyncio.to_thread(request_for, name)
        try:
            question = await asyncio.to_thread(authority.begin, request)
            # The answer lies there before the authority is told to look.
            await self._certificates.put_answer(question.token, question.answer, term.fence)
            chain = await asyncio.to_thread(authority.finish, question)
        finally:
            await asyncio.to_thread(authority.close)
        return checked(name, chain, key, datetime.now(UTC))

    async def _known(self, term: Term) -> "Authority":
        if self._authority is None:
            # The library is large: a hub that orders nothing never loads it.
            from rota.routing.authority import Authority, new_account_key  # noqa: PLC0415

            directory = self._settings.routing.acme_directory
            account = await self._certificates.account(directory)
            if account is None:
                identity, key = new_identity(), new_account_key()
                sealed = Sealer(self._vault.public).seal(about(directory, ACCOUNT, identity), key.encode())
                account = AcmeAccount(directory, sealed, identity, "")
                await self._certificates.put_account(account, term.fence)
            opened = self._vault.unseal(about(directory, ACCOUNT, account.identity), account.key)
            self._authority = Authority(directory, opened.decode(), self._settings.routing.acme_contact)
        return self._authority

    async def _probe(self, kept: Kept, term: Term) -> None:
        host, _, port = self._settings.routing.tls.rpartition(":")
        try:
            seen = await asyncio.to_thread(served_by, host.strip("[]"), int(port), kept.name, 5.0)
        except (OSError, ValueError) as error:
            seen = f"nothing: {error}"
        served = seen == kept.fingerprint
        if served is not (kept.served_at is not None):
            await self._certificates.seen(kept.name, kept.fingerprint, term.fence, served=served)
        if served:
            self._unserved.discard(kept.fingerprint)
        elif kept.fingerprint not in self._unserved:
            self._unserved.add(kept.fingerprint)
            log.warning("certificate not served", name=kept.name, wanted=kept.fingerprint, served=seen)
