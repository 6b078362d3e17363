"""The parts of a hub that have to do with servers, put together in this process."""

import random
from dataclasses import replace
from typing import Any

from tests.support.postgres import free_port
from tests.support.server import CAPABILITIES, Simulated
from tests.support.wait import eventually

from rota.acts.access import make_tlog
from rota.acts.key import log_key
from rota.coordination.bus.announcer import Announcer
from rota.coordination.bus.events import OrderWaiting
from rota.coordination.bus.local import LocalBus
from rota.link.orders import Orders
from rota.link.post import Post
from rota.link.provisions import KeptReleases, Proofs
from rota.servers.enrolment import Enrolments, Invitation
from rota.servers.reception import Reception
from rota.settings import Settings
from rota.store.database import Database
from rota.store.server_outbox import Outcome, ServerOutbox
from rota.store.servers import Awaited, ServerRow, Servers
from rota.store.tlog import Outbox
from rota.tasks.servers import Link
from rota.wire import channel
from rota.wire.channel import Memory, Outgoing
from rota.wire.envelope import unseal
from rota.wire.keys import SigningKey
from rota.wire.statements import Enrol, Enrolled

HUB_KEY = SigningKey.from_seed(b"h" * 32)
_random = random.SystemRandom()


class ServersHub:
    """One process's own."""

    def __init__(self, settings: Settings, database: Database) -> None:
        servers = replace(settings.servers, hub="http://127.0.0.1:1", report_every=1)
        self.settings = replace(settings, servers=servers)
        self.database = database
        self.bus = LocalBus()
        self.tlog = make_tlog(self.settings, database, self.bus)
        self.servers = Servers(database)
        self.outbox = ServerOutbox(database)
        self.enrolments = Enrolments(self.settings, database, self.tlog, log_key(self.settings))
        self.reception = Reception(self.settings, database, Announcer(self.bus))
        self.port = free_port()

    async def open(self) -> None:
        """Say with which key the hub signs."""
        await self.database.write(lambda tx: Servers.publish_keys(tx, [HUB_KEY.public]))

    def link(self, *keys: SigningKey) -> Link:
        """Return the task that sends."""
        orders = Orders(
            KeptReleases(self.settings, self.database),
            Proofs(Outbox(self.database), self.settings.tlog_directory),
        )
        return Link(self.database, self.bus, [*keys] or [HUB_KEY], orders, Post(self.port))

    async def invite(self, name: str, address: str = "", **more: Any) -> Invitation:
        """Await a server, at an address of this test's own if none is given."""
        # An address of this test's own, so that tests beside each other do not meet.
        own = (
            address or f"127.{_random.randrange(1, 255)}.{_random.randrange(255)}.{_random.randrange(1, 255)}"
        )
        return await self.enrolments.begin("test", Awaited(name, own, "", 0, **more))

    async def complete(self, server: Simulated, invitation: Invitation, **changed: Any) -> Enrolled:
        """Complete an enrolment as the server does."""
        server.hub, server.url = invitation.hub, invitation.url
        usual = {
            "name": server.name,
            "token": invitation.token,
            "public_key": server.key.public,
            "session": server.session,
            "distribution": server.distribution,
            "capabilities": CAPABILITIES,
            "agent_version": "0",
        }
        body = Enrol(**{**usual, **changed})
        envelope = channel.write(Outgoing(body.name, server.hub, "0" * 32, 1), body, server.key)
        statement = channel.read_enrol(unseal(envelope), await self.reception.audience())
        primary = next((row for row in await self.servers.all() if row.is_primary), None)
        done = await self.enrolments.complete(statement, primary)
        server.session_out, server.seq, server.hub_keys = done.session, 0, done.hub_keys
        server.memory = Memory(server.session)
        return done

    async def enrolled(self, name: str, **more: Any) -> Simulated:
        """Return a server that is enrolled."""
        invitation = await self.invite(name, **more)
        server = Simulated(name, invitation.address)
        await self.complete(server, invitation)
        return server

    async def order(self, server: str, kind: str = "stop", subject: str = "shop.web.1", **body: Any) -> int:
        """Put out an order."""
        full = {"instance": subject, "release": 3, "run": 0, **body}
        nudge = OrderWaiting(server)
        return await self.database.write(
            lambda tx: ServerOutbox.put(
                tx, server, kind, subject, full, nudge=lambda: self.bus.publish(nudge)
            )
        )

    async def row(self, name: str) -> ServerRow:
        """Return a server's row."""
        row = await self.servers.find(name)
        assert row is not None
        return row

    async def outcome(self, order: int) -> Outcome:
        """Return what became of an order."""
        outcome = await self.outbox.outcome(order)
        assert outcome is not None
        return outcome

    async def state(self, order: int) -> str:
        """Return where an order stands."""
        return (await self.outcome(order)).state

    async def done(self, *orders: int, state: str = "done") -> None:
        """Wait until orders have ended so."""

        async def reached() -> bool:
            return [await self.state(order) for order in orders] == [state] * len(orders)

        await eventually(reached)
