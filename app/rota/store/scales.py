"""How many instances of each process type an app should have, and the servers they are pinned to."""

from dataclasses import dataclass

import msgspec

from rota.store.database import Database, Row, Transaction


@dataclass(frozen=True, kw_only=True)
class Scale:
    """One process type of an app. `use` and `avoid` name servers; `version` moves with every change."""

    process_type: str
    count: int
    use: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    version: int = 1


class Scales:
    """Static methods belong to the transaction of their caller."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def of(self, app: str) -> dict[str, Scale]:
        """Return the scales of an app by process type."""
        return await self._database.read(lambda tx: self.within(tx, app))

    @staticmethod
    async def within(tx: Transaction, app: str) -> dict[str, Scale]:
        """Return them as this transaction sees them."""
        return {row["process_type"]: _scale(row) for row in await tx.all("scales.of", app=app)}

    @staticmethod
    async def add(tx: Transaction, app: str, process_type: str, count: int) -> None:
        """Say how many there are of a process type that is new."""
        await tx.run("scales.add", app=app, process_type=process_type, count=count)

    @staticmethod
    async def change(tx: Transaction, app: str, scale: Scale) -> bool:
        """Change one from the version that was read; False where somebody has changed it since."""
        values = {"use": _names(scale.use), "avoid": _names(scale.avoid), "count": scale.count}
        kept = {"app": app, "process_type": scale.process_type, "version": scale.version}
        return await tx.run("scales.change", **values, **kept) == 1


def _names(servers: tuple[str, ...]) -> str:
    return msgspec.json.encode(servers).decode()


def _scale(row: Row) -> Scale:
    return Scale(
        process_type=row["process_type"],
        count=row["count"],
        use=tuple(msgspec.json.decode(row["use"], type=list[str])),
        avoid=tuple(msgspec.json.decode(row["avoid"], type=list[str])),
        version=row["version"],
    )
