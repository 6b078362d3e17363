"""What the database keeps of the transparency log: the tree signed last, and acts that wait for it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

from rota.coordination.epoch import Fence
from rota.errors import DamagedError
from rota.store.database import Database, Transaction
from rota.tlog.frames import Position
from rota.tlog.signing import Signed

Nudge = Callable[[], None]  # tells the process that appends, in the event loop


class SignedRows:
    """The copy of what was signed that does not lie beside the log, one row for each origin."""

    def __init__(self, database: Database) -> None:
        """Keep it in this database."""
        self._database = database

    async def last(self, origin: str) -> Signed | None:
        """Return what was signed last for a log."""
        row = await self._database.read(lambda tx: tx.one("tlog.signed", origin=origin))
        return Signed(**row) if row else None

    async def ground(self, origin: str) -> tuple[int, int]:
        """Return what a writer must know: the hub's generation, and how much of its log is signed."""
        row = await self._database.read(lambda tx: tx.one("tlog.ground", origin=origin))
        assert row is not None  # noqa: S101 - a query without FROM gives one row
        return int(row["generation"]), int(row["size"] or 0)

    async def save(self, fence: Fence, signed: Signed) -> None:
        """Replace it. Raises DamagedError where that would go back, and FencedError."""

        async def work(tx: Transaction) -> int:
            return await tx.run("tlog.sign", **asdict(signed))

        if not await self._database.write(work, fence):
            raise DamagedError(
                f"the database says that another tree than this one of {signed.size} was signed: "
                "the tlog's directory is an older copy. Nothing is signed"
            )


@dataclass(frozen=True)
class Outgoing:
    """An act that a worker decided; `since` is where the log ended before anyone tried to append it."""

    id: int
    entry: bytes
    since: Position | None


class Outbox:
    """Acts on their way from a worker's transaction into the log, in order.

    An act's effect outside the database waits until its row has an index.
    """

    def __init__(self, database: Database) -> None:
        """Keep the rows in this database."""
        self._database = database

    @staticmethod
    async def add(tx: Transaction, entry: bytes, nudge: Nudge | None = None) -> int:
        """Put an entry out, in the transaction that decides the act; return the row's id.

        The nudge is given after the commit; without one the act waits for the next look.
        """
        row = await tx.one("tlog.put_out", entry=entry)
        assert row is not None  # noqa: S101 - INSERT … RETURNING gives one row
        if nudge is not None:
            tx.after_commit(nudge)
        return int(row["id"])

    async def waiting(self, limit: int) -> list[Outgoing]:
        """Return the oldest that have no index, in order."""
        rows = await self._database.read(lambda tx: tx.all("tlog.waiting", limit=limit))
        return [
            Outgoing(row["id"], bytes(row["entry"]), Position.parse(row["since"]) if row["since"] else None)
            for row in rows
        ]

    async def begin(self, ids: list[int], since: Position, fence: Fence) -> None:
        """Note where the log ended before the first try; a later try keeps what the first one noted."""

        async def work(tx: Transaction) -> None:
            for each in ids:
                await tx.run("tlog.begin", id=each, since=str(since))

        await self._database.write(work, fence)

    async def indexed(self, found: list[tuple[int, int]], fence: Fence) -> None:
        """Write back the (row, index) of acts that are in the log."""

        async def work(tx: Transaction) -> None:
            for each, index in found:
                await tx.run("tlog.index", id=each, position=index)

        await self._database.write(work, fence)

    async def index_of(self, row: int) -> int | None:
        """Return the index of an act, None while it waits. An effect asks this first."""
        found = await self._database.read(lambda tx: tx.one("tlog.index_of", id=row))
        return None if found is None or found["position"] is None else int(found["position"])

    async def prune(self, fence: Fence, days: int) -> int:
        """Forget acts that are in the log and were put out longer ago; return how many rows."""
        return await self._database.write(lambda tx: tx.run("tlog.prune", days=days), fence)
