"""One server's orders, in order: number, sign, send, and note what came of each."""

import asyncio

import structlog

from rota.coordination.leader import Term
from rota.link.orders import Orders, WrongOrderError
from rota.link.post import Post, UnansweredError
from rota.link.provisions import NotYetError
from rota.store.database import Database
from rota.store.server_outbox import Order, ServerOutbox
from rota.store.servers import ServerRow, Servers
from rota.wire.answer import Answer
from rota.wire.channel import Outgoing, write
from rota.wire.keys import SigningKey
from rota.wire.statements import Message, Rotate

SOON = 0.05  # seconds before what waits for the log is looked at again, at first
LATER = 2.0  # and at most
FAR = 5.0  # seconds at most between two tries to reach a server that does not answer

log = structlog.get_logger("rota.link")


class Sender:
    """Sends to every server, each at its own pace; no slow one holds up another."""

    def __init__(self, database: Database, keys: list[SigningKey], orders: Orders, post: Post) -> None:
        """Sign with the first of these keys, or with an older one for whom does not know it yet."""
        self._database = database
        self._servers = Servers(database)
        self._outbox = ServerOutbox(database)
        self._keys = {key.public: key for key in keys}
        self._newest = keys[0]
        self._orders = orders
        self._post = post

    async def drain(self, name: str, term: Term) -> None:
        """Send what waits for one server until nothing does. Its pauses end when the term does."""
        pause = SOON
        while not term.stopping.is_set():
            server, order = await self._servers.find(name), await self._outbox.next(name)
            if order is None:
                return
            if server is None or server.state != "enrolled":
                await self._outbox.explain(order, f"{name} is not enrolled", term.fence)
                return
            try:
                await self._one(server, order, term)
            except (NotYetError, UnansweredError) as error:
                await self._outbox.explain(order, str(error), term.fence)
                most = FAR if isinstance(error, UnansweredError) else LATER
                if await term.pause(min(pause, most)):
                    return
                pause *= 2
            else:
                pause = SOON

    async def _one(self, server: ServerRow, order: Order, term: Term) -> None:
        try:
            message = await self._orders.message(order)
        except WrongOrderError as error:
            log.error("order cannot be sent", server=server.name, subject=order.subject, reason=str(error))  # noqa: TRY400
            await self._outbox.end(order, "refused", str(error), term.fence)
            return
        key = await self._known_key(server, term)
        numbered = await self._outbox.numbered(order, term.fence)
        if numbered is None or numbered.seq is None:
            return
        answer = await self._send(server, message, numbered.seq, key, term)
        if answer.code == "gap" and answer.expected > 0:
            await self._outbox.renumber(order, answer.expected, term.fence)
            return
        if answer.code in ("session", "signature", "epoch", "protocol", "audience", "stale"):
            raise UnansweredError(f"{server.name} does not take the hub's messages: {answer.reason}")
        if answer.state == "refused":
            log.warning("order refused", server=server.name, subject=order.subject, reason=answer.reason)
        await self._outbox.end(order, answer.state, answer.reason, term.fence)

    async def _known_key(self, server: ServerRow, term: Term) -> SigningKey:
        """Return the key to sign with; one that replaced another is made known first."""
        if server.hub_key == self._newest.public:
            return self._newest
        old = self._keys.get(server.hub_key)
        if old is None:
            raise UnansweredError(
                f"{server.name} knows another key of the hub than this one has: enrol it anew with "
                f"`rota server enrol {server.name}`"
            )
        order = await self._outbox.next(server.name)
        if order is None or order.seq is not None:
            return old  # what has its number already goes first, as it was
        seq = await self._outbox.take_number(server.name, term.fence)
        answer = await self._send(server, Rotate(public_key=self._newest.public), seq, old, term)
        if answer.state != "done":
            raise UnansweredError(f"{server.name} does not take the hub's new key: {answer.reason}")
        await self._database.write(lambda tx: Servers.knows(tx, server.name, self._newest.public), term.fence)
        return self._newest

    async def _send(
        self, server: ServerRow, message: Message, seq: int, key: SigningKey, term: Term
    ) -> Answer:
        identity = await self._servers.identity()
        outgoing = Outgoing(
            sender=identity.audience,
            audience=server.name,
            session=server.session_out,
            seq=seq,
            epoch=term.fence.pair,
        )
        envelope = await asyncio.to_thread(write, outgoing, message, key)
        term.check()
        return await self._post.send(server.address, envelope)
