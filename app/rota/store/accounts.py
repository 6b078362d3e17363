"""The accounts, one row each. None is ever removed: acts name them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from rota.access.scopes import Scope, read_scopes, written
from rota.errors import ConflictError, NotFoundError
from rota.store.database import Database, Row, Transaction
from rota.store.moments import moment
from rota.store.tlog import Outbox


@dataclass(frozen=True)
class Account:
    """One account."""

    id: int
    name: str
    scopes: frozenset[Scope]
    disabled: bool
    created_at: datetime


@dataclass(frozen=True)
class Change:
    """What is to change of an account; None leaves a thing as it is. `password` is a hash."""

    scopes: Iterable[Scope] | None = None
    disabled: bool | None = None
    password: str | None = None


class Accounts:
    """Makes, changes and finds accounts. An act given is put out in the same transaction."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def create(
        self, name: str, password: str, scopes: Iterable[Scope], act: bytes | None = None
    ) -> int:
        """Make an account with a password's hash; return its id. Raises ConflictError: the name is taken."""

        async def work(tx: Transaction) -> int:
            row = await tx.one("accounts.create", name=name, password=password, scopes=written(scopes))
            if row is None:
                raise ConflictError(f"There is an account {name} already.", "Choose another name.")
            if act is not None:
                await Outbox.add(tx, act)
            return int(row["id"])

        return await self._database.write(work)

    async def change(
        self, name: str, change: Change, act: bytes | None = None, kept_session: int | None = None
    ) -> None:
        """Change an account. With a new password, or disabled, it ends its sessions but the one that is kept.

        Raises NotFoundError, and ConflictError where nobody would be left who may do everything.
        """
        values = {
            "scopes": None if change.scopes is None else written(change.scopes),
            "disabled": change.disabled,
            "password": change.password,
        }

        async def work(tx: Transaction) -> None:
            before = await _administrators(tx)
            row = await tx.one("accounts.change", name=name, **values)
            if row is None:
                raise _unknown(name)
            if before and not await _administrators(tx):
                raise ConflictError(
                    f"Without {name} nobody would be left who may do everything.",
                    "Make another administrator first.",
                )
            if change.disabled or change.password is not None:
                await tx.run("sessions.finish_others", account=row["id"], kept=kept_session or 0)
            if act is not None:
                await Outbox.add(tx, act)

        # One at a time: of two administrators, each of two calls would see the other one.
        await self._database.exclusive("accounts", work)

    async def find(self, name: str) -> Account:
        """Return one account. Raises NotFoundError."""
        row = await self._database.read(lambda tx: tx.one("accounts.find", name=name))
        if row is None:
            raise _unknown(name)
        return _account(row)

    async def all(self) -> list[Account]:
        """Return every account, by name."""
        rows = await self._database.read(lambda tx: tx.all("accounts.all"))
        return [_account(row) for row in rows]

    async def password(self, name: str) -> str | None:
        """Return the hash of an account's password; None where nobody of this name may sign in."""
        row = await self._database.read(lambda tx: tx.one("accounts.password", name=name))
        return None if row is None else str(row["password"])


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"There is no account {name}.", "The accounts are on the page Settings.")


async def _administrators(tx: Transaction) -> int:
    accounts = [_account(row) for row in await tx.all("accounts.all")]
    return sum(Scope.ADMIN in each.scopes and not each.disabled for each in accounts)


def _account(row: Row) -> Account:
    return Account(
        id=row["id"],
        name=row["name"],
        scopes=read_scopes(row["scopes"]),
        disabled=bool(row["disabled"]),
        created_at=moment(row["created_at"]),
    )
