"""`/api/apps/{app}/releases`, and the way back."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated

import msgspec
from falcon.asgi import Request, Response

from rota.access.scopes import Scope
from rota.deploys.asking import Asking
from rota.errors import NotFoundError
from rota.hub import Hub
from rota.releases.configuring import Configuring
from rota.store.apps import Apps
from rota.store.artifacts import Artifacts
from rota.store.releases import Releases
from rota.web.bodies import answered, queried, received
from rota.web.endpoint import Answer, Routes, endpoint

MOST = 500


class ReleaseDocument(msgspec.Struct):
    """One release. `kept` says whether its artifact is still there, so that one can go back to it."""

    number: int
    artifact: str
    configuration: int
    cause: str
    actor: str
    current: bool
    served: bool
    kept: bool
    created_at: datetime


class ReleasesDocument(msgspec.Struct):
    """The releases of an app, the newest first."""

    releases: list[ReleaseDocument]


class Listing(msgspec.Struct, forbid_unknown_fields=True):
    """How many to answer."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = 50


class BackDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The release to go back to; without one the last that served before."""

    release: Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)] | None = None


class BegunDocument(msgspec.Struct):
    """The new release, of which release it is made, and the deploy that brings it."""

    release: int
    cause: str
    deploy: int


class ReleasesResource:
    """The releases of an app."""

    def __init__(self, hub: Hub) -> None:
        """Show those of this hub."""
        self._database = hub.database
        bus = hub.together.bus
        self._configuring = Configuring(hub.database, hub.tlog, bus)
        self._deploys = Asking(hub.settings, hub.database, hub.tlog, hub.together.queue, bus)

    @endpoint(
        Scope.APPS_READ,
        "The releases of an app",
        query=Listing,
        answers={200: Answer("The releases.", ReleasesDocument)},
    )
    async def on_get(self, req: Request, resp: Response, app: str) -> None:
        """Answer them, the newest first."""
        row = await Apps(self._database).find(app)
        if row is None:
            raise NotFoundError(f"There is no app {app}.", "`rota apps` shows all.")
        found = await Releases(self._database).of(app, queried(req, Listing).limit)
        kept = {artifact.hash for artifact in await Artifacts(self._database).all()}
        answered(
            resp,
            ReleasesDocument(
                [
                    ReleaseDocument(
                        number=each.number,
                        artifact=each.artifact,
                        configuration=each.configuration,
                        cause=each.cause,
                        actor=each.actor,
                        current=each.number == row.release,
                        served=each.served,
                        kept=each.artifact in kept,
                        created_at=each.created_at,
                    )
                    for each in found
                ]
            ),
        )

    @endpoint(
        Scope.APPS_WRITE,
        "Go back to an earlier release, which makes a new one and deploys it",
        body=BackDocument,
        answers={202: Answer("What has begun.", BegunDocument)},
    )
    async def on_post_back(self, req: Request, resp: Response, app: str) -> None:
        """Make the release, and begin its deploy."""
        asked, actor = await received(req, BackDocument), req.context.principal.actor
        await self._deploys.refuse_second(app)
        made = await self._configuring.back(actor, app, asked.release)
        begun = await self._deploys.again(actor, app, made.number, "rollback")
        answered(resp, BegunDocument(made.number, made.cause, begun.deploy), HTTPStatus.ACCEPTED)


def add_routes(routes: Routes, hub: Hub) -> None:
    """Add them to a web process's app."""
    resource = ReleasesResource(hub)
    routes.add("/api/apps/{app}/releases", resource)
    routes.add("/api/apps/{app}/rollback", resource, suffix="back")
