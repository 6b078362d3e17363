"""`servers.link` and `servers.watch`: what the hub tells its servers, and whom it has not heard of."""

import asyncio
from datetime import datetime, timedelta

import structlog

from rota.acts.act import Act
from rota.coordination.bus.announcer import Announcer
from rota.coordination.bus.broadcast import Resync, Subscription
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import ActWaiting, OrderWaiting, Topic
from rota.coordination.leader import Term
from rota.errors import UnreachableError
from rota.link.orders import Orders
from rota.link.post import Post
from rota.link.sender import Sender
from rota.servers.reception import PAGES
from rota.servers.silence import Sign, judge
from rota.store.database import Database, Transaction
from rota.store.server_outbox import ServerOutbox
from rota.store.servers import Heard, Servers
from rota.store.tlog import Outbox
from rota.wire.keys import SigningKey

LOOK = 2.0  # seconds between two looks that nobody asked for
GAP = timedelta(seconds=5)  # a look that comes later than this means that the hub could not hear
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")

log = structlog.get_logger("rota.servers")


class Link:
    """The only sender of orders: one drain for each server for which something waits."""

    def __init__(
        self, database: Database, bus: Bus, keys: list[SigningKey], orders: Orders, post: Post
    ) -> None:
        """Send what lies in this database, signed with these keys, the one in use first."""
        self._database = database
        self._bus = bus
        self._keys = keys
        self._orders = orders
        self._post = post
        self._outbox = ServerOutbox(database)

    async def __call__(self, term: Term) -> None:
        """Send until asked to stop."""
        if not self._keys:
            log.warning("servers are told nothing: this hub has no servers.key")
            await term.stopping.wait()
            return
        keys = [key.public for key in self._keys]
        await self._database.write(lambda tx: Servers.publish_keys(tx, keys), term.fence)
        sender = Sender(self._database, self._keys, self._orders, self._post)
        drains: dict[str, asyncio.Task[None]] = {}
        try:
            with self._bus.subscribe(Topic.QUEUE) as nudges:
                while not term.stopping.is_set():
                    await self._begin(sender, term, drains)
                    await term.pause(LOOK, _order_waits(nudges))
        finally:
            for task in drains.values():
                task.cancel()
            await asyncio.gather(*drains.values(), return_exceptions=True)
            await self._post.close()

    async def _begin(self, sender: Sender, term: Term, drains: dict[str, asyncio.Task[None]]) -> None:
        for name, task in list(drains.items()):
            if task.done():
                del drains[name]
                task.result()
        for name in await self._outbox.waiting_servers():
            if name not in drains:
                drains[name] = asyncio.create_task(sender.drain(name, term), name=f"servers.link {name}")


class Watch:
    """Marks servers lost whose reports are missing, and says so once."""

    def __init__(self, database: Database, bus: Bus, report_every: int) -> None:
        """Watch the servers in this database; they report every so many seconds."""
        self._database = database
        self._servers = Servers(database)
        self._bus = bus
        self._report_every = report_every

    async def __call__(self, term: Term) -> None:
        """Watch until asked to stop."""
        since: datetime | None = None  # from when the hub could hear
        looked: datetime | None = None
        deaf = False
        pages = Announcer(self._bus)
        while True:
            try:
                heard = await self._servers.heard()
            except UnreachableError:
                since = looked = None
                heard = []
            if heard:
                now = heard[0].now
                if since is None or looked is None or now - looked > GAP:
                    since = now
                looked = now
                signs = [Sign(each.name, each.reported_at, each.lost) for each in heard]
                found = judge(signs, since, now, self._report_every)
                if found.deaf and not deaf:
                    log.warning("the hub hears no server: nobody counts as lost")
                if deaf and not found.deaf:
                    since = now  # whoever could not be heard has until its next report
                elif not found.deaf:
                    await self._lose([each for each in heard if each.name in found.lost], term, pages)
                deaf = found.deaf
            if await term.pause(LOOK):
                return

    async def _lose(self, silent: list[Heard], term: Term, pages: Announcer) -> None:
        for each in silent:
            if await self._database.write(lambda tx, each=each: _lose(tx, each), term.fence):  # type: ignore[misc]
                log.warning("server lost", server=each.name, last_report=str(each.reported_at))
                pages.say(PAGES.format(each.name), "state")
                self._bus.publish(ActWaiting())


async def _lose(tx: Transaction, heard: Heard) -> bool:
    at = heard.reported_at
    if at is None or not await Servers.lose(tx, heard, (at - _EPOCH) // timedelta(microseconds=1)):
        return False
    act = Act(
        kind="server.lost",
        actor="servers.watch",
        subject=heard.name,
        details={"silent_for": int((heard.now - at).total_seconds())},
    )
    await Outbox.add(tx, bytes(act))
    return True


async def _order_waits(nudges: Subscription) -> None:
    while not isinstance(await nudges.next(), OrderWaiting | Resync):
        pass
