"""What the hub wants of its servers, in order. Whoever decides puts a row in; servers.link alone sends it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rota.coordination.epoch import Fence
from rota.store.database import Database, Row, Transaction


@dataclass(frozen=True)
class Order:
    """One order. `seq` is the number with which it was sent, None before the first try."""

    id: int
    server: str
    kind: str
    subject: str
    body: Mapping[str, Any]
    act: int | None
    seq: int | None
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What became of an order: waiting, done, refused or dropped, and why."""

    state: str
    reason: str


class ServerOutbox:
    """The orders of one hub."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    @staticmethod
    async def put(  # noqa: PLR0913 - what an order is
        tx: Transaction,
        server: str,
        kind: str,
        subject: str,
        body: Mapping[str, Any],
        *,
        act: int | None = None,
        nudge: Callable[[], None] | None = None,
    ) -> int:
        """Put an order out, in the transaction that decides it; return its row's id.

        With `act`, a row of the log's outbox, it is sent once that one is in
        the log. `nudge` is called after the commit.
        """
        row = await tx.one(
            "orders.put",
            server=server,
            kind=kind,
            subject=subject,
            body=msgspec.json.encode(body).decode(),
            act=act,
        )
        assert row is not None  # noqa: S101 - INSERT … RETURNING gives one row
        if nudge is not None:
            tx.after_commit(nudge)
        return int(row["id"])

    async def outcome(self, order: int) -> Outcome | None:
        """Return what became of an order, None for one that is forgotten."""
        row = await self._database.read(lambda tx: tx.one("orders.outcome", id=order))
        return None if row is None else Outcome(row["state"], row["reason"])

    async def waiting_servers(self) -> list[str]:
        """Return the servers for which something waits."""
        rows = await self._database.read(lambda tx: tx.all("orders.waiting_servers"))
        return [row["server"] for row in rows]

    async def next(self, server: str) -> Order | None:
        """Return the oldest order that waits for a server."""
        row = await self._database.read(lambda tx: tx.one("orders.next", server=server))
        return None if row is None else _order(row)

    async def numbered(self, order: Order, fence: Fence) -> Order | None:
        """Give an order the server's next number, once; None where it no longer waits."""

        async def work(tx: Transaction) -> Order | None:
            found = await tx.one("orders.next", server=order.server)
            if found is None or found["id"] != order.id:
                return None
            if found["seq"] is None:
                await tx.run("orders.advance", server=order.server)
                await tx.run("orders.number", server=order.server, id=order.id)
                found = await tx.one("orders.next", server=order.server)
            return None if found is None else _order(found)

        return await self._database.write(work, fence)

    async def take_number(self, server: str, fence: Fence) -> int:
        """Return the server's next number, for a message that has no row and may be lost."""

        async def work(tx: Transaction) -> int:
            await tx.run("orders.advance", server=server)
            row = await tx.one("servers.find", name=server)
            return 0 if row is None else int(row["seq_out"])

        return await self._database.write(work, fence)

    async def renumber(self, order: Order, expected: int, fence: Fence) -> None:
        """Go on with the number that the server expects."""

        async def work(tx: Transaction) -> None:
            await tx.run("orders.renumber", server=order.server, seq=expected - 1)
            await tx.run("orders.unnumber", id=order.id)

        await self._database.write(work, fence)

    async def end(self, order: Order, state: str, reason: str, fence: Fence) -> None:
        """Note that an order is done or refused."""
        await self._database.write(
            lambda tx: tx.run("orders.end", id=order.id, state=state, reason=reason), fence
        )

    async def explain(self, order: Order, reason: str, fence: Fence) -> None:
        """Note why an order still waits."""
        if reason != order.reason:
            await self._database.write(lambda tx: tx.run("orders.explain", id=order.id, reason=reason), fence)

    @staticmethod
    async def drop(tx: Transaction, server: str, reason: str) -> int:
        """Give up everything that waits for a server; return how many orders."""
        return await tx.run("orders.drop", server=server, reason=reason)

    async def counts(self) -> dict[str, int]:
        """Return how many orders wait, by server."""
        rows = await self._database.read(lambda tx: tx.all("orders.counts"))
        return {row["server"]: int(row["waiting"]) for row in rows}

    async def prune(self, fence: Fence, days: int) -> int:
        """Forget orders that ended longer ago; return how many rows."""
        return await self._database.write(lambda tx: tx.run("orders.prune", days=days), fence)


def _order(row: Row) -> Order:
    return Order(**{**row, "body": msgspec.json.decode(row["body"])})
