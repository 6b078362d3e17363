"""Certificates, their orders, and the accounts with authorities. Private keys are sealed."""

from dataclasses import dataclass
from datetime import datetime

from rota.coordination.epoch import Fence
from rota.store.database import Database, Row, Transaction
from rota.store.moments import moment, moment_or_none


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The newest certificate of one name.

    `chain` is PEM, `key` sealed about `identity`, `fingerprint` the SHA-256 of
    the certificate in hex, `served_at` when the proxy was last seen to serve it.
    """

    name: str
    chain: str
    key: str
    identity: str
    fingerprint: str
    begins_at: datetime
    ends_at: datetime
    served_at: datetime | None = None


@dataclass(frozen=True)
class Order:
    """A name for which the authority gave no certificate yet: how often it was tried, and why it failed."""

    name: str
    tries: int
    tried_at: datetime
    reason: str


@dataclass(frozen=True)
class AcmeAccount:
    """This hub's account with an authority: its key, sealed about `identity`."""

    directory: str
    key: str
    identity: str
    uri: str


class Certificates:
    """Static methods belong to the transaction of their caller."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def all(self) -> list[Kept]:
        """Return every one, by name."""
        return [_kept(row) for row in await self._database.read(lambda tx: tx.all("certificates.all"))]

    @staticmethod
    async def put(tx: Transaction, new: Kept) -> None:
        """Keep one in place of the one before."""
        await tx.run(
            "certificates.put",
            name=new.name,
            chain=new.chain,
            key=new.key,
            identity=new.identity,
            fingerprint=new.fingerprint,
            begins_at=int(new.begins_at.timestamp()) * 1_000_000,
            ends_at=int(new.ends_at.timestamp()) * 1_000_000,
        )
        await tx.run("certificates.settled", name=new.name)

    @staticmethod
    async def remove(tx: Transaction, name: str) -> None:
        """Forget one, with its key and its order."""
        await tx.run("certificates.remove", name=name)
        await tx.run("certificates.settled", name=name)

    async def seen(self, name: str, fingerprint: str, fence: Fence, *, served: bool) -> bool:
        """Note whether the proxy serves this one; return whether it was still the newest."""
        statement = "certificates.served" if served else "certificates.unserved"
        work = await self._database.write(
            lambda tx: tx.run(statement, name=name, fingerprint=fingerprint), fence
        )
        return work == 1

    async def orders(self) -> dict[str, Order]:
        """Return the orders that failed, by name."""
        rows = await self._database.read(lambda tx: tx.all("certificates.orders"))
        return {
            row["name"]: Order(row["name"], row["tries"], moment(row["tried_at"]), row["reason"])
            for row in rows
        }

    async def tried(self, name: str, reason: str, fence: Fence) -> None:
        """Note that an order failed."""
        await self._database.write(
            lambda tx: tx.run("certificates.tried", name=name, reason=reason[:1000]), fence
        )

    async def account(self, directory: str) -> AcmeAccount | None:
        """Return the account with the authority whose directory has this address."""
        row = await self._database.read(lambda tx: tx.one("certificates.account", directory=directory))
        return None if row is None else AcmeAccount(**row)

    async def put_account(self, account: AcmeAccount, fence: Fence) -> None:
        """Keep an account."""
        await self._database.write(
            lambda tx: tx.run(
                "certificates.put_account",
                directory=account.directory,
                key=account.key,
                identity=account.identity,
                uri=account.uri,
            ),
            fence,
        )

    async def answer(self, token: str) -> str | None:
        """Return what an authority is answered that asks for this token."""
        row = await self._database.read(lambda tx: tx.one("certificates.answer", token=token))
        return None if row is None else str(row["answer"])

    async def put_answer(self, token: str, answer: str, fence: Fence) -> None:
        """Have an authority answered; what is older than a day is forgotten."""

        async def work(tx: Transaction) -> None:
            await tx.run("certificates.prune_answers")
            await tx.run("certificates.put_answer", token=token, answer=answer)

        await self._database.write(work, fence)


def _kept(row: Row) -> Kept:
    moments = {name: moment(row[name]) for name in ("begins_at", "ends_at")}
    return Kept(**{**row, **moments, "served_at": moment_or_none(row["served_at"])})
