"""Who leads which task, as the database last heard."""

from dataclasses import dataclass
from datetime import datetime

from rota.store.database import Database
from rota.store.moments import moment


@dataclass(frozen=True)
class Led:
    """One task's newest leader. It may have ended since."""

    task: str
    epoch: int
    holder: str
    since: datetime


class Leaders:
    """Reads the rows that holders of leader locks write."""

    def __init__(self, database: Database) -> None:
        """Read from this database."""
        self._database = database

    async def all(self) -> list[Led]:
        """Return every task's newest leader, by task."""
        rows = await self._database.read(lambda tx: tx.all("leaders.all"))
        return [Led(row["task"], row["epoch"], row["holder"], moment(row["since"])) for row in rows]
