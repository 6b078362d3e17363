"""Browsers' sessions: one row each, found by the hash of its cookie's value."""

from rota.access.credential import digest
from rota.access.principal import Principal
from rota.access.scopes import read_scopes
from rota.coordination.epoch import Fence
from rota.store.database import Database

IDLE = 30 * 86400  # seconds without a request after which a session is over
STALE = 600  # seconds after which a session that is used is noted as seen again


class Sessions:
    """Begins, finds and ends sessions, by the database's clock."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def begin(self, account: int, cookie: str) -> int:
        """Begin a session of an account; return its id."""
        row = await self._database.write(
            lambda tx: tx.one("sessions.begin", account=account, digest=digest(cookie), seconds=IDLE)
        )
        assert row is not None  # noqa: S101 - INSERT … RETURNING gives one row
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
