"""What the proxy should do with each app, and what it was seen to have done."""

from dataclasses import dataclass

from rota.coordination.epoch import Fence
from rota.store.database import Database, Transaction


@dataclass(frozen=True)
class RouteRow:
    """One app. The proxy does what the database says once `confirmed` has reached `wanted`."""

    app: str
    wanted: int
    confirmed: int
    reason: str


class Routes:
    """Static methods belong to the transaction of their caller."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    @staticmethod
    async def want(tx: Transaction, app: str) -> None:
        """Say, in the transaction that changes where an app's requests go, that the proxy must look."""
        await tx.run("routes.want", app=app)

    async def of(self, app: str) -> RouteRow | None:
        """Return one app's, None where nothing was ever wanted."""
        row = await self._database.read(lambda tx: tx.one("routes.of", app=app))
        return None if row is None else RouteRow(**row)

    async def all(self) -> list[RouteRow]:
        """Return every app's. Read these first and the instances after them: what is newer is only better."""
        return [RouteRow(**row) for row in await self._database.read(lambda tx: tx.all("routes.all"))]

    async def confirm(self, app: str, number: int, fence: Fence) -> bool:
        """Say that the proxy does what was wanted with this number; True where that was news."""
        return (
            await self._database.write(lambda tx: tx.run("routes.confirm", app=app, number=number), fence)
            == 1
        )

    async def complain(self, app: str, reason: str, fence: Fence) -> None:
        """Say why the proxy cannot be brought to it."""
        await self._database.write(lambda tx: tx.run("routes.complain", app=app, reason=reason), fence)
