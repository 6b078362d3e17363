"""Webhooks: who is told of which acts, and how far the log was read for them."""

from dataclasses import dataclass
from datetime import datetime

import msgspec

from rota.coordination.epoch import Fence
from rota.store.database import Database, Row, Transaction
from rota.store.moments import moment
from rota.tlog.frames import START, Position


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """One subscription. It is told of entries of the log after `since`; an empty `app` means of every one."""

    id: str
    url: str
    kinds: tuple[str, ...]
    app: str
    active: bool
    since: int
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is changed of a subscription; None leaves a part as it is."""

    url: str | None = None
    kinds: tuple[str, ...] | None = None
    app: str | None = None
    active: bool | None = None


@dataclass(frozen=True)
class Cursor:
    """Where the next entry to look at begins, and the root before it, None where that is not known.

    `stored` is false before anyone has read the log for webhooks.
    """

    position: Position
    root: bytes | None
    stored: bool = True


NOWHERE = Cursor(START, None, stored=False)


class Webhooks:
    """Each method but the readers belongs to the transaction of its caller."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def all(self) -> list[Webhook]:
        """Return every one, the oldest first."""
        return await self._database.read(self.within)

    async def find(self, webhook: str) -> Webhook | None:
        """Return one, None where it is not there."""
        row = await self._database.read(lambda tx: tx.one("webhooks.find", id=webhook))
        return None if row is None else _webhook(row)

    async def cursor(self) -> Cursor:
        """Return how far the log was read."""
        row = await self._database.read(lambda tx: tx.one("webhooks.cursor"))
        return Cursor(Position.parse(row["position"]), bytes.fromhex(row["root"])) if row else NOWHERE

    @staticmethod
    async def within(tx: Transaction) -> list[Webhook]:
        """Return every one, as this transaction sees them."""
        return [_webhook(row) for row in await tx.all("webhooks.all")]

    async def add(self, new: Webhook, sealed: str) -> None:
        """Add one with its sealed secret."""
        kinds = msgspec.json.encode(new.kinds).decode()
        values = {"id": new.id, "url": new.url, "kinds": kinds, "app": new.app, "since": new.since}
        await self._database.write(lambda tx: tx.run("webhooks.add", secret=sealed, **values))

    async def change(self, webhook: str, change: Change, entry: int) -> bool:
        """Change one by the act of this index; return False where it is not there."""
        kinds = None if change.kinds is None else msgspec.json.encode(change.kinds).decode()
        values = {"url": change.url, "kinds": kinds, "app": change.app, "active": change.active}
        changed = await self._database.write(
            lambda tx: tx.run("webhooks.change", id=webhook, since=entry, **values)
        )
        return changed == 1

    async def remove(self, webhook: str) -> bool:
        """Remove one with all its deliveries; return False where it is not there."""

        async def work(tx: Transaction) -> bool:
            await tx.run("deliveries.remove", webhook=webhook)
            return await tx.run("webhooks.remove", id=webhook) == 1

        return await self._database.write(work)

    @staticmethod
    async def move(tx: Transaction, before: Cursor, position: Position, root: bytes) -> bool:
        """Move the cursor from where it was read; return False where somebody else has moved it."""
        values = {"position": str(position), "root": root.hex()}
        if not before.stored:
            return await tx.run("webhooks.begin", **values) == 1
        return await tx.run("webhooks.move", before=str(before.position), **values) == 1


class Notices:
    """When the operators were last told of something: of one subject once in a while."""

    @staticmethod
    async def tell(tx: Transaction, subject: str, rest: float) -> bool:
        """Note that they are told now; return False where that was less than `rest` seconds ago."""
        return await tx.run("notices.tell", subject=subject, rest=rest) == 1

    @staticmethod
    async def prune(database: Database, fence: Fence, days: int) -> int:
        """Forget what was told longer ago; return how many rows."""
        return await database.write(lambda tx: tx.run("notices.prune", days=days), fence)


def _webhook(row: Row) -> Webhook:
    return Webhook(
        id=row["id"],
        url=row["url"],
        kinds=tuple(msgspec.json.decode(row["kinds"], type=list[str])),
        app=row["app"],
        active=bool(row["active"]),
        since=row["since"],
        created_at=moment(row["created_at"]),
    )
