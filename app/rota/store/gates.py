"""Gates: which apps only those who are signed in may use, and whom they let in."""

from dataclasses import dataclass

import msgspec

from rota.coordination.epoch import Fence
from rota.store.database import Database, Row, Transaction


@dataclass(frozen=True)
class Gate:
    """One app's. `allowed` are accounts' names, none is everyone; a change has a new `version`."""

    app: str
    shut: bool
    allowed: tuple[str, ...]
    version: int


@dataclass(frozen=True)
class Visit:
    """A token that was given out: for which app, to which account in which session, for how many seconds."""

    id: str
    app: str
    account: int
    session: int
    lasts: int


class Gates:
    """Static methods belong to the transaction of their caller."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def all(self) -> dict[str, Gate]:
        """Return every one, by app."""
        rows = await self._database.read(lambda tx: tx.all("gates.all"))
        return {row["app"]: _gate(row) for row in rows}

    async def find(self, app: str) -> Gate | None:
        """Return an app's, None where it never had one."""
        row = await self._database.read(lambda tx: tx.one("gates.find", app=app))
        return None if row is None else _gate(row)

    @staticmethod
    async def put(tx: Transaction, app: str, allowed: tuple[str, ...], *, shut: bool) -> None:
        """Shut or open a gate; every token given out before is good no longer."""
        names = msgspec.json.encode(sorted(set(allowed))).decode()
        await tx.run("gates.put", app=app, shut=shut, allowed=names)

    async def let_in(self, visit: Visit) -> None:
        """Note a token before it is given out."""
        await self._database.write(
            lambda tx: tx.run(
                "gates.let_in",
                id=visit.id,
                app=visit.app,
                account=visit.account,
                session=visit.session,
                lasts=visit.lasts,
            )
        )

    async def revoked(self) -> list[str]:
        """Return the ids of tokens whose session is over, or whose account is disabled, before they end."""
        return [row["id"] for row in await self._database.read(lambda tx: tx.all("gates.revoked"))]

    async def prune(self, fence: Fence) -> int:
        """Forget the tokens that are over; return how many."""
        return await self._database.write(lambda tx: tx.run("gates.prune"), fence)


def _gate(row: Row) -> Gate:
    return Gate(
        row["app"], bool(row["shut"]), tuple(msgspec.json.decode(row["allowed"])), int(row["version"])
    )
