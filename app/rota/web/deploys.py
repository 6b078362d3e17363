"""`/api/apps/…/deploys`, `/api/deploys/…`: what moves apps, begun and followed."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from falcon.asgi import Request, Response

from rota.access.scopes import Scope
from rota.deploys.asking import Asking, Begun
from rota.deploys.planning import Plan
from rota.errors import NotFoundError
from rota.hub import Hub
from rota.store.deploys import DeployRow, Deploys, StepRow
from rota.web.bodies import answered, received
from rota.web.endpoint import NUMBER, Answer, Routes, endpoint

Name = Annotated[str, msgspec.Meta(max_length=100)]
Names = Annotated[list[Name], msgspec.Meta(max_length=100)]


class NewDeploy(msgspec.Struct, forbid_unknown_fields=True):
    """The BLAKE3 of a source that was uploaded."""

    source: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]


class Counts(msgspec.Struct, forbid_unknown_fields=True):
    """How many instances run, by process type."""

    counts: Annotated[dict[Name, int], msgspec.Meta(min_length=1, max_length=100)]


class Pins(msgspec.Struct, forbid_unknown_fields=True):
    """The servers that a process type uses, none for any, and those that it avoids."""

    process_type: Name
    use: Names = []
    avoid: Names = []


class BegunDocument(msgspec.Struct):
    """The number of the deploy that has begun, and what to know beside it."""

    deploy: int
    warnings: list[str]


class StepDocument(msgspec.Struct):
    """One step: waiting, running, done, failed."""

    kind: str
    state: str
    reason: str
    started_at: datetime | None
    ended_at: datetime | None


class DeployDocument(msgspec.Struct):
    """One deploy, its plan in sentences, and its steps."""

    id: int
    app: str
    cause: str
    release: int | None
    before: int | None
    build: int | None
    state: str
    cancelling: bool
    actor: str
    reason: str
    plan: list[str]
    steps: list[StepDocument]
    created_at: datetime
    ended_at: datetime | None


class DeploysDocument(msgspec.Struct):
    """The newest deploys of an app."""

    deploys: list[DeployDocument]


class AppDeploysResource:
    """Those of one app."""

    def __init__(self, hub: Hub, asking: Asking) -> None:
        """Show and begin this hub's."""
        self._deploys = Deploys(hub.database)
        self._asking = asking

    @endpoint(Scope.APPS_READ, "The deploys of an app", answers={200: Answer("The newest.", DeploysDocument)})
    async def on_get(self, req: Request, resp: Response, app: str) -> None:
        """Answer the newest deploys, the newest first."""
        rows = await self._deploys.of(app)
        found = [document(row, await self._deploys.steps(row.id)) for row in rows]
        answered(resp, DeploysDocument(found))

    @endpoint(
        Scope.APPS_WRITE,
        "Build a source that was uploaded, and move the app to it",
        body=NewDeploy,
        answers={201: Answer("The deploy has begun.", BegunDocument)},
    )
    async def on_post(self, req: Request, resp: Response, app: str) -> None:
        """Begin a deploy. An app that is not there is made."""
        new = await received(req, NewDeploy)
        begun(resp, await self._asking.deploy(req.context.principal.actor, app, new.source))


class ScaleResource:
    """How many instances of an app run."""

    def __init__(self, asking: Asking) -> None:
        """Change this hub's."""
        self._asking = asking

    @endpoint(
        Scope.APPS_WRITE,
        "Set how many instances of an app's process types run",
        body=Counts,
        answers={201: Answer("The deploy that brings it about.", BegunDocument)},
    )
    async def on_post(self, req: Request, resp: Response, app: str) -> None:
        """Scale an app; what no server can run changes nothing."""
        asked = await received(req, Counts)
        begun(resp, await self._asking.scale(req.context.principal.actor, app, asked.counts))


class PinResource:
    """The servers that an app's process types are pinned to."""

    def __init__(self, asking: Asking) -> None:
        """Change this hub's."""
        self._asking = asking

    @endpoint(
        Scope.APPS_WRITE,
        "Pin a process type to servers, or away from them; it moves what that affects",
        body=Pins,
        answers={201: Answer("The deploy that brings it about.", BegunDocument)},
    )
    async def on_post(self, req: Request, resp: Response, app: str) -> None:
        """Pin a process type."""
        asked = await received(req, Pins)
        actor = req.context.principal.actor
        made = await self._asking.pin(actor, app, asked.process_type, tuple(asked.use), tuple(asked.avoid))
        begun(resp, made)


class DeployResource:
    """One deploy."""

    def __init__(self, hub: Hub, asking: Asking) -> None:
        """Show and end this hub's."""
        self._deploys = Deploys(hub.database)
        self._asking = asking

    @endpoint(Scope.APPS_READ, "One deploy", answers={200: Answer("The deploy.", DeployDocument)})
    async def on_get(self, req: Request, resp: Response, deploy: int) -> None:
        """Answer a deploy as it stands."""
        row = await self._deploys.find(deploy)
        if row is None:
            raise NotFoundError(f"There is no deploy {deploy}.", "`rota apps` shows what goes on.")
        answered(resp, document(row, await self._deploys.steps(deploy)))


class CancelResource:
    """The end of a deploy before its time."""

    def __init__(self, asking: Asking) -> None:
        """End this hub's."""
        self._asking = asking

    @endpoint(Scope.APPS_WRITE, "Cancel a deploy", answers={204: Answer("It is being cancelled.")})
    async def on_post(self, req: Request, resp: Response, deploy: int) -> None:
        """Have a deploy end; what it started is stopped, and the old release serves on."""
        await self._asking.cancel(req.context.principal.actor, deploy)
        resp.status = "204 No Content"


def begun(resp: Response, made: Begun) -> None:
    """Answer that a deploy has begun."""
    answered(resp, BegunDocument(made.deploy, list(made.warnings)), HTTPStatus.CREATED)


def document(row: DeployRow, steps: list[StepRow]) -> DeployDocument:
    """Return a deploy as it is answered."""
    plan: Any = dict(row.plan)
    return DeployDocument(
        id=row.id,
        app=row.app,
        cause=row.cause,
        release=row.release,
        before=row.before,
        build=row.build,
        state=row.state,
        cancelling=row.cancelling,
        actor=row.actor,
        reason=row.reason,
        plan=msgspec.convert(plan, Plan).sentences() if plan else [],
        steps=[
            StepDocument(step.kind, step.state, step.reason, step.started_at, step.ended_at) for step in steps
        ],
        created_at=row.created_at,
        ended_at=row.ended_at,
    )


def add_routes(routes: Routes, hub: Hub, asking: Asking) -> None:
    """Add them."""
    routes.add("/api/apps/{app}/deploys", AppDeploysResource(hub, asking))
    routes.add("/api/apps/{app}/scale", ScaleResource(asking))
    routes.add("/api/apps/{app}/pin", PinResource(asking))
    routes.add(f"/api/deploys/{{deploy:{NUMBER}}}", DeployResource(hub, asking))
    routes.add(f"/api/deploys/{{deploy:{NUMBER}}}/cancel", CancelResource(asking))
