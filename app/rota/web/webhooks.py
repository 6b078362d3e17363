"""`/api/webhooks` and the pages of webhooks."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Literal

import msgspec
from falcon.asgi import Request, Response

from rota.access.scopes import Scope
from rota.hooks.subscriptions import Subscriptions, Wanted
from rota.hub import Hub
from rota.store.deliveries import Deliveries, Delivery
from rota.store.webhooks import Change, Webhook, Webhooks
from rota.web.bodies import answered, is_form, queried, received, see
from rota.web.endpoint import HTML, NUMBER, ON_TO_PAGE, Answer, Routes, endpoint
from rota.web.pages import Pages

PAGE = "/webhooks"
SHOWN = 50  # deliveries on a page
MOST = 500  # deliveries in one answer

Text = Annotated[str, msgspec.Meta(max_length=4000)]
Kinds = Annotated[list[Text], msgspec.Meta(max_length=100)]


class NewWebhook(msgspec.Struct, forbid_unknown_fields=True):
    """Whom to tell, and of what: kinds as backup.make, prefixes as backup.*, none for every act."""

    url: Text
    kinds: Kinds | Text = ""
    app: Text = ""
    secret: Text = ""


class ChangedWebhook(msgspec.Struct, forbid_unknown_fields=True):
    """What to change; what is not given stays."""

    url: Text | None = None
    kinds: Kinds | None = None
    app: Text | None = None
    active: bool | None = None


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """What a button of the page asks for."""

    do: Literal["pause", "resume", "delete"]


class Listing(msgspec.Struct):
    """How many deliveries to answer, the newest first."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = SHOWN


class WebhookDocument(msgspec.Struct):
    """One subscription. Without an `app` it is told of the whole platform's acts."""

    id: str
    url: str
    kinds: list[str]
    app: str
    active: bool
    created_at: datetime


class MadeDocument(msgspec.Struct):
    """A new subscription with its secret, which is answered this once."""

    webhook: WebhookDocument
    secret: str


class WebhooksDocument(msgspec.Struct):
    """Every subscription."""

    webhooks: list[WebhookDocument]


class DeliveryDocument(msgspec.Struct):
    """One delivery: `state` is new, queued, delivered, dead or dropped."""

    id: int
    entry: int
    kind: str
    state: str
    tries: int
    status: int | None
    reason: str
    created_at: datetime
    tried_at: datetime | None
    next_at: datetime | None


class DeliveriesDocument(msgspec.Struct):
    """The newest deliveries of one subscription."""

    deliveries: list[DeliveryDocument]


class WebhooksResource:
    """All of them."""

    def __init__(self, hub: Hub, subscriptions: Subscriptions, pages: Pages) -> None:
        """Show and change this hub's."""
        self._database = hub.database
        self._subscriptions = subscriptions
        self._pages = pages

    @endpoint(Scope.WEBHOOKS_READ, "Every webhook", answers={200: Answer("The webhooks.", WebhooksDocument)})
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer every subscription, the oldest first."""
        found = await Webhooks(self._database).all()
        answered(resp, WebhooksDocument([_webhook(each) for each in found]))

    @endpoint(
        Scope.WEBHOOKS_WRITE,
        "Subscribe an address to acts",
        body=NewWebhook,
        answers={
            200: Answer("A form: the page with the secret.", media=HTML),
            201: Answer("The webhook, and its secret this once.", MadeDocument),
        },
        form=True,
    )
    async def on_post(self, req: Request, resp: Response) -> None:
        """Add a subscription; a browser is shown its secret on the page itself, since no other will."""
        new = await received(req, NewWebhook)
        kinds = new.kinds.replace(",", " ").split() if isinstance(new.kinds, str) else new.kinds
        wanted = Wanted(url=new.url, kinds=tuple(kinds), app=new.app, secret=new.secret)
        webhook, secret = await self._subscriptions.create(req.context.principal.actor, wanted)
        if is_form(req):
            _show(self._pages, req, resp, webhook=webhook, deliveries=[], secret=secret)
        else:
            answered(resp, MadeDocument(_webhook(webhook), secret), HTTPStatus.CREATED)

    @endpoint(
        Scope.WEBHOOKS_READ, "The page of webhooks", answers={200: Answer("The page.", media=HTML)}, page=True
    )
    async def on_get_page(self, req: Request, resp: Response) -> None:
        """Show every subscription, and the newest deliveries of all."""
        webhooks = await Webhooks(self._database).all()
        deliveries = await Deliveries(self._database).list(limit=SHOWN)
        may_write = req.context.principal.may(Scope.WEBHOOKS_WRITE)
        self._pages.show(
            req, resp, "webhooks.html", webhooks=webhooks, deliveries=deliveries, may_write=may_write
        )


class WebhookResource:
    """One of them."""

    def __init__(self, hub: Hub, subscriptions: Subscriptions, pages: Pages) -> None:
        """Show and change this hub's."""
        self._database = hub.database
        self._subscriptions = subscriptions
        self._pages = pages

    @endpoint(Scope.WEBHOOKS_READ, "A webhook", answers={200: Answer("The webhook.", WebhookDocument)})
    async def on_get(self, req: Request, resp: Response, webhook: str) -> None:
        """Answer one subscription."""
        answered(resp, _webhook(await self._subscriptions.find(webhook)))

    @endpoint(
        Scope.WEBHOOKS_WRITE,
        "Change a webhook",
        body=ChangedWebhook,
        answers={200: Answer("The webhook as it is now.", WebhookDocument)},
    )
    async def on_patch(self, req: Request, resp: Response, webhook: str) -> None:
        """Change what is given."""
        asked = await received(req, ChangedWebhook)
        change = Change(
            url=asked.url,
            kinds=None if asked.kinds is None else tuple(asked.kinds),
            app=asked.app,
            active=asked.active,
        )
        changed = await self._subscriptions.change(req.context.principal.actor, webhook, change)
        answered(resp, _webhook(changed))

    @endpoint(
        Scope.WEBHOOKS_WRITE,
        "Remove a webhook, and what it was told",
        answers={204: Answer("It is gone.", media="")},
    )
    async def on_delete(self, req: Request, resp: Response, webhook: str) -> None:
        """Remove it."""
        await self._subscriptions.remove(req.context.principal.actor, webhook)
        resp.status = "204 No Content"

    @endpoint(
        Scope.WEBHOOKS_WRITE,
        "Pause, resume or delete a webhook, as the buttons of its page do",
        body=Asked,
        answers={303: Answer("On to the page.", media="")},
        form=True,
    )
    async def on_post(self, req: Request, resp: Response, webhook: str) -> None:
        """Do what a button asks for."""
        asked, actor = await received(req, Asked), req.context.principal.actor
        if asked.do == "delete":
            await self._subscriptions.remove(actor, webhook)
            see(resp, PAGE)
            return
        await self._subscriptions.change(actor, webhook, Change(active=asked.do == "resume"))
        see(resp, f"{PAGE}/{webhook}")

    @endpoint(
        Scope.WEBHOOKS_READ,
        "The page of a webhook",
        answers={200: Answer("The page.", media=HTML)},
        page=True,
    )
    async def on_get_page(self, req: Request, resp: Response, webhook: str) -> None:
        """Show one subscription and its newest deliveries."""
        found = await self._subscriptions.find(webhook)
        deliveries = await Deliveries(self._database).list(webhook, SHOWN)
        _show(self._pages, req, resp, webhook=found, deliveries=deliveries, secret="")


class DeliveriesResource:
    """What one of them was told."""

    def __init__(self, hub: Hub, subscriptions: Subscriptions) -> None:
        """Show and repeat this hub's."""
        self._database = hub.database
        self._subscriptions = subscriptions

    @endpoint(
        Scope.WEBHOOKS_READ,
        "What a webhook was told, and what came of it",
        query=Listing,
        answers={200: Answer("The newest deliveries.", DeliveriesDocument)},
    )
    async def on_get(self, req: Request, resp: Response, webhook: str) -> None:
        """Answer the newest deliveries."""
        limit = queried(req, Listing).limit
        await self._subscriptions.find(webhook)
        found = await Deliveries(self._database).list(webhook, limit)
        answered(resp, DeliveriesDocument([_delivery(each) for each in found]))

    @endpoint(
        Scope.WEBHOOKS_WRITE,
        "Tell a webhook of this very request",
        answers={
            202: Answer("The delivery, which is tried within a second.", DeliveryDocument),
            303: ON_TO_PAGE,
        },
        form=True,
    )
    async def on_post_ping(self, req: Request, resp: Response, webhook: str) -> None:
        """Send a first message."""
        _begun(req, resp, await self._subscriptions.ping(req.context.principal.actor, webhook))

    @endpoint(
        Scope.WEBHOOKS_WRITE,
        "Try a delivery again now",
        answers={
            202: Answer("The delivery.", DeliveryDocument),
            303: ON_TO_PAGE,
        },
        form=True,
    )
    async def on_post_again(self, req: Request, resp: Response, webhook: str, number: int) -> None:
        """Have it tried, whatever came of it before."""
        actor = req.context.principal.actor
        _begun(req, resp, await self._subscriptions.redeliver(actor, webhook, number))


def add_routes(routes: Routes, hub: Hub, pages: Pages) -> None:
    """Add them to a web process's app."""
    subscriptions = Subscriptions(hub.settings, hub.database, hub.tlog, hub.together.bus)
    every = WebhooksResource(hub, subscriptions, pages)
    one = WebhookResource(hub, subscriptions, pages)
    deliveries = DeliveriesResource(hub, subscriptions)
    routes.add("/api/webhooks", every)
    routes.add("/api/webhooks/{webhook}", one)
    routes.add("/api/webhooks/{webhook}/ping", deliveries, suffix="ping")
    routes.add("/api/webhooks/{webhook}/deliveries", deliveries)
    again = f"/api/webhooks/{{webhook}}/deliveries/{{number:{NUMBER}}}/redeliver"
    routes.add(again, deliveries, suffix="again")
    routes.add(PAGE, every, suffix="page")
    routes.add(PAGE + "/{webhook}", one, suffix="page")


def _show(pages: Pages, req: Request, resp: Response, **values: object) -> None:
    may_write = req.context.principal.may(Scope.WEBHOOKS_WRITE)
    pages.show(req, resp, "webhook.html", may_write=may_write, **values)


def _begun(req: Request, resp: Response, delivery: Delivery) -> None:
    if is_form(req):
        see(resp, f"{PAGE}/{delivery.webhook}")
    else:
        answered(resp, _delivery(delivery), HTTPStatus.ACCEPTED)


def _webhook(webhook: Webhook) -> WebhookDocument:
    return WebhookDocument(
        webhook.id, webhook.url, list(webhook.kinds), webhook.app, webhook.active, webhook.created_at
    )


def _delivery(delivery: Delivery) -> DeliveryDocument:
    return DeliveryDocument(
        id=delivery.id,
        entry=delivery.entry,
        kind=delivery.kind,
        state=delivery.standing.value,
        tries=delivery.tries,
        status=delivery.status,
        reason=delivery.reason,
        created_at=delivery.created_at,
        tried_at=delivery.tried_at,
        next_at=delivery.next_at,
    )
