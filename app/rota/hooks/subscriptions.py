"""What people do with webhooks. Each is an act: in the log before it is done and answered."""

import asyncio
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rota.acts.act import Act
from rota.acts.recorder import perform
from rota.coordination.bus.announcer import Announcer
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import DeliveryWaiting, JobWaiting
from rota.drivers.outbound import checked_url, origin_of
from rota.errors import ConflictError, NotFoundError
from rota.hooks.delivering import KIND, TOPIC
from rota.hooks.matching import checked_app, checked_kinds
from rota.hooks.message import body_of, new_secret, secret_key
from rota.hooks.vault import Vault
from rota.settings import Settings
from rota.store.database import Database, Transaction
from rota.store.deliveries import Deliveries, Delivery, Due, Standing
from rota.store.jobs import Jobs
from rota.store.webhooks import Change, Webhook, Webhooks
from rota.tlog.log import Tlog
from rota.tlog.records import Logged


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A subscription as it is asked for; without a `secret` one is made."""

    url: str
    kinds: tuple[str, ...] = ()
    app: str = ""
    secret: str = ""


class Subscriptions:
    """Every method raises InputError, NotFoundError or ConflictError for what its caller can mend."""

    def __init__(self, settings: Settings, database: Database, tlog: Tlog, bus: Bus) -> None:
        """Act on this hub."""
        self._database = database
        self._tlog = tlog
        self._bus = bus
        self._vault = Vault(settings)
        self._webhooks = Webhooks(database)
        self._deliveries = Deliveries(database)
        self._pages = Announcer(bus)

    async def find(self, webhook: str) -> Webhook:
        """Return a subscription."""
        found = await self._webhooks.find(webhook)
        if found is None:
            raise NotFoundError(f"There is no webhook {webhook}.", "`rota webhook list` shows all.")
        return found

    async def create(self, actor: str, wanted: Wanted) -> tuple[Webhook, str]:
        """Add a subscription; return it and its secret, which nobody is told again."""
        url, kinds, app = checked_url(wanted.url), checked_kinds(wanted.kinds), checked_app(wanted.app)
        secret = wanted.secret or new_secret()
        secret_key(secret)
        sealed = await asyncio.to_thread(self._vault.seal, secret)
        name = secrets.token_hex(4)
        details = {"to": origin_of(url), "kinds": list(kinds), "app": app}

        async def work(logged: Logged) -> Webhook:
            webhook = Webhook(
                id=name,
                url=url,
                kinds=kinds,
                app=app,
                active=True,
                since=logged.index,
                created_at=datetime.now(UTC),
            )
            await self._webhooks.add(webhook, sealed)
            return webhook

        made = await perform(self._tlog, _act("create", actor, name, details), work)
        self._pages.say(TOPIC, "webhook")
        return made, secret

    async def change(self, actor: str, webhook: str, change: Change) -> Webhook:
        """Change a subscription."""
        await self.find(webhook)
        details: dict[str, Any] = {}
        if change.url is not None:
            details["to"] = origin_of(checked_url(change.url))
        if change.kinds is not None:
            details["kinds"] = list(checked_kinds(change.kinds))
        if change.app is not None:
            details["app"] = checked_app(change.app)
        if change.active is not None:
            details["active"] = change.active
        checked = Change(
            url=change.url,
            kinds=None if change.kinds is None else checked_kinds(change.kinds),
            app=change.app,
            active=change.active,
        )

        async def work(logged: Logged) -> Webhook:
            await self._webhooks.change(webhook, checked, logged.index)
            return await self.find(webhook)

        changed = await perform(self._tlog, _act("change", actor, webhook, details), work)
        self._bus.publish(DeliveryWaiting())  # what waited while it was not active
        self._pages.say(TOPIC, "webhook")
        return changed

    async def remove(self, actor: str, webhook: str) -> None:
        """Remove a subscription with all that it was told."""
        found = await self.find(webhook)

        async def work(_: Logged) -> None:
            await self._webhooks.remove(webhook)

        await perform(self._tlog, _act("remove", actor, webhook, {"to": origin_of(found.url)}), work)
        self._pages.say(TOPIC, "webhook")

    async def ping(self, actor: str, webhook: str) -> Delivery:
        """Tell a subscription of this very act, whatever it is subscribed to."""
        _refuse_inactive(await self.find(webhook))
        act = _act("ping", actor, webhook, {})

        async def work(logged: Logged) -> Delivery | None:
            async def add(tx: Transaction) -> None:
                message = (act.id, body_of(act, logged.index))
                await Deliveries.add(tx, webhook, logged.index, act.kind, message)
                self._bus.publish(DeliveryWaiting(), after=tx)

            await self._database.write(add)
            return await self._deliveries.find(webhook, act=act.id)

        return _present(await perform(self._tlog, act, work), webhook)

    async def redeliver(self, actor: str, webhook: str, delivery: int) -> Delivery:
        """Have a delivery tried again now: by its job where it has one, else as if it were new."""
        _refuse_inactive(await self.find(webhook))
        found = _present(await self._deliveries.find(webhook, delivery), webhook)
        details = {"delivery": delivery, "entry": found.entry}

        async def work(_: Logged) -> Delivery | None:
            if found.job is not None and found.standing in (Standing.QUEUED, Standing.DEAD):
                done = bool(await Jobs(self._database).retry([found.job]))
                self._bus.publish(JobWaiting(KIND))
            else:
                done = found.standing is Standing.NEW or await self._renew(delivery)
            if not done:
                raise ConflictError(
                    f"Delivery {delivery} is being tried at this moment.", "Look again in a few seconds."
                )
            return await self._deliveries.find(webhook, delivery)

        again = await perform(self._tlog, _act("redeliver", actor, webhook, details), work)
        return _present(again, webhook)

    async def _renew(self, delivery: int) -> bool:
        due: Due | None = await self._deliveries.due(delivery)

        async def work(tx: Transaction) -> bool:
            self._bus.publish(DeliveryWaiting(), after=tx)
            return due is not None and await Deliveries.renew(tx, due)

        return await self._database.write(work)


def _act(verb: str, actor: str, webhook: str, details: dict[str, Any]) -> Act:
    return Act(kind=f"webhook.{verb}", actor=actor, subject=f"webhook:{webhook}", details=details)


def _present(delivery: Delivery | None, webhook: str) -> Delivery:
    if delivery is None:
        raise NotFoundError(
            f"The webhook {webhook} has no such delivery.", f"`rota webhook deliveries {webhook}` shows all."
        )
    return delivery


def _refuse_inactive(webhook: Webhook) -> None:
    if not webhook.active:
        raise ConflictError(
            f"The webhook {webhook.id} is paused.",
            f"`rota webhook resume {webhook.id}` makes it active again.",
        )
