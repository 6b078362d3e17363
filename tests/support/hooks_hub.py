"""The parts of a hub that deliver webhooks and mail, put together in this process."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from tests.support.tlog_hub import Led, lead

from rota.acts.access import make_tlog
from rota.acts.act import Act
from rota.acts.recorder import perform
from rota.coordination.bus.local import LocalBus
from rota.coordination.queue.queue import TableQueue
from rota.hooks.subscriptions import Subscriptions, Wanted
from rota.hooks.vault import new_key
from rota.hooks.walk import Walk
from rota.secret import Secret
from rota.settings import Settings
from rota.settings.model import MailSettings, WebhookSettings
from rota.store.database import Database
from rota.store.deliveries import Deliveries, Delivery
from rota.store.webhooks import Webhook
from rota.tasks.hooks import HooksWorker
from rota.tasks.parts import Parts
from rota.tasks.queue import QueueWorker
from rota.tlog.disk import LocalDisk
from rota.tlog.records import Logged

TASK = "hooks.worker"
LOOPBACK = ("127.0.0.0/8",)


class HooksHub:
    """One process's own. Its log is the one that the settings name."""

    def __init__(self, settings: Settings, database: Database, **mail: Any) -> None:
        webhooks = WebhookSettings(key=Secret(new_key()), allow=LOOPBACK)
        sends = MailSettings(**{**_MAIL, **mail})
        self.settings = replace(settings, webhooks=webhooks, mail=sends)
        self.database = database
        self.bus = LocalBus()
        self.queue = TableQueue(database, self.bus)
        self.tlog = make_tlog(self.settings, database, self.bus)
        self.parts = Parts(self.settings, database, self.bus, self.queue, Counter())
        self.walk = Walk(database, LocalDisk(self.settings.tlog_directory))
        self.subscriptions = Subscriptions(self.settings, database, self.tlog, self.bus)
        self.deliveries = Deliveries(database)

    async def act(self, kind: str = "probe.make", subject: str = "x", **details: Any) -> int:
        """Do nothing, as an act; return its index."""

        async def nothing(logged: Logged) -> int:
            return logged.index

        return await perform(
            self.tlog, Act(kind=kind, actor="test", subject=subject, details=details), nothing
        )

    async def subscribe(self, url: str, *kinds: str, app: str = "") -> tuple[Webhook, str]:
        """Add a subscription."""
        return await self.subscriptions.create("test", Wanted(url=url, kinds=kinds, app=app))

    async def lead(self) -> Led:
        """Take the lock, whoever held it."""
        return Led(await lead(self.database, TASK))

    async def standings(self) -> dict[str, int]:
        """Return how many deliveries stand how."""
        return await self.deliveries.counts()

    async def only(self) -> Delivery:
        """Return the one delivery that there is."""
        (found,) = await self.deliveries.list()
        return found

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[Led]:
        """Lead `hooks.worker` for the length of the block."""
        led = await self.lead()
        worker = HooksWorker(self.database, self.bus, self.walk, self.parts.delivering())
        led.running = asyncio.create_task(worker(led.term))
        try:
            yield led
        finally:
            await led.stop()
        led.running.result()

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Take jobs for the length of the block."""
        stopping = asyncio.Event()
        running = asyncio.create_task(QueueWorker(self.parts)(stopping))
        try:
            yield
        finally:
            stopping.set()
            await running


_MAIL: dict[str, Any] = {
    "host": "",
    "port": 25,
    "tls": "none",
    "username": "",
    "password": Secret(),
    "sender": "rota@example.org",
    "operators": (),
}
