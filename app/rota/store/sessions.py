"""Browsers' sessions: one row each, found by the hash of its cookie's value."""

from rota.access.credential import digest
from rota.access.principal import Principal
from rota.access.scopes import read_scopes
from rota.coordination.epoch import Fence
from rota.errors import ConflictError
from rota.store.database import Database

IDLE = 30 * 86400  # seconds without a request after which a session is over
STALE = 600  # seconds after which a session that is used is noted as seen again


class Sessions:
    """Begins, finds and ends sessions, by the database's clock."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def begin(self, account: int, cookie: str, password: str | None = None) -> int:
        """Begin a session of an account; return its id.

        `password` is the hash that was looked at. Raises ConflictError where it is
        the account's no longer, or the account is disabled: a session that began
        now would outlive the change that ended the others.
        """
        values = {"account": account, "digest": digest(cookie), "password": password, "seconds": IDLE}
        row = await self._database.write(lambda tx: tx.one("sessions.begin", **values))
        if row is None:
            raise ConflictError("This account was changed at this very moment.", "Sign in again.")
        return int(row["id"])

    async def caller(self, cookie: str) -> Principal | None:
        """Return whose session this is, and keep it alive; None where it is over or never was."""
        row = await self._database.read(
            lambda tx: tx.one("sessions.caller", digest=digest(cookie), stale=STALE)
        )
        if row is None:
            return None
        number = int(row["id"])
        if row["stale"]:
            await self._database.write(lambda tx: tx.run("sessions.seen", id=number, seconds=IDLE))
        return Principal(row["account"], row["name"], read_scopes(row["scopes"]), session=number)

    async def finish(self, session: int) -> None:
        """End a session."""
        await self._database.write(lambda tx: tx.run("sessions.finish", id=session))

    async def prune(self, fence: Fence) -> int:
        """Forget those that are over; return how many."""
        return await self._database.write(lambda tx: tx.run("sessions.prune"), fence)
