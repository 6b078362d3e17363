"""API tokens: one row each, found by the hash of the token."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from rota.access.credential import digest
from rota.access.principal import Principal
from rota.access.scopes import Scope, granted, read_scopes, written
from rota.coordination.epoch import Fence
from rota.errors import ConflictError, NotFoundError
from rota.store.database import Database
from rota.store.moments import moment, moment_or_none

STALE = 600  # seconds after which a token that is used is noted as used again


@dataclass(frozen=True)
class Token:
    """One token, without its secret. Its scopes are those it was made with."""

    id: int
    account: str
    name: str
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None
    revoked_at: datetime | None
    expired: bool

    @property
    def state(self) -> str:
        """Return whether it is `good`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expired else "good"


class Tokens:
    """Makes, finds and revokes tokens, by the database's clock."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def create(
        self, account: int, name: str, secret: str, scopes: Iterable[Scope], seconds: int | None = None
    ) -> int:
        """Make a token that is good for so long, None for ever; return its id.

        Raises ConflictError where one of the account's has this name and is not revoked.
        """
        values = {"account": account, "name": name, "digest": digest(secret), "scopes": written(scopes)}
        row = await self._database.write(lambda tx: tx.one("tokens.create", **values, seconds=seconds))
        if row is None:
            raise ConflictError(
                f"There is a token {name} already.", "Choose another name, or revoke that one first."
            )
        return int(row["id"])

    async def caller(self, secret: str) -> Principal | None:
        """Return whose token this is, and note that it is used; None where it is good no longer or never was.

        It has those of its scopes that its account still has.
        """
        row = await self._database.read(
            lambda tx: tx.one("tokens.caller", digest=digest(secret), stale=STALE)
        )
        if row is None:
            return None
        number = int(row["id"])
        if row["stale"]:
            await self._database.write(lambda tx: tx.run("tokens.used", id=number))
        scopes = granted(read_scopes(row["scopes"]), read_scopes(row["account_scopes"]))
        return Principal(row["account"], row["name"], scopes, token=number, token_name=row["token_name"])

    async def all(self, account: int | None = None) -> list[Token]:
        """Return an account's tokens, None for everybody's, the newest first."""
        return await self._rows(account, None)

    async def find(self, token: int, account: int | None = None) -> Token:
        """Return one token, of this account. Raises NotFoundError."""
        found = await self._rows(account, token)
        if not found:
            raise NotFoundError(f"There is no token {token}.", "`rota token list` shows yours.")
        return found[0]

    async def revoke(self, token: int) -> bool:
        """Make a token good no longer; return False where it was not."""
        return await self._database.write(lambda tx: tx.run("tokens.revoke", id=token)) == 1

    async def prune(self, fence: Fence, days: int) -> int:
        """Forget those that ended longer ago; return how many."""
        return await self._database.write(lambda tx: tx.run("tokens.prune", days=days), fence)

    async def _rows(self, account: int | None, token: int | None) -> list[Token]:
        rows = await self._database.read(lambda tx: tx.all("tokens.list", account=account, id=token))
        return [
            Token(
                id=row["id"],
                account=row["account"],
                name=row["name"],
                scopes=read_scopes(row["scopes"]),
                created_at=moment(row["created_at"]),
                expires_at=moment_or_none(row["expires_at"]),
                used_at=moment_or_none(row["used_at"]),
                revoked_at=moment_or_none(row["revoked_at"]),
                expired=bool(row["expired"]),
            )
            for row in rows
        ]
