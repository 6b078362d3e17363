"""`/api/builds/…`: how a build stands, and what it says, from its beginning and as it comes."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

import msgspec
from falcon.asgi import Request, Response

from rota.access.scopes import Scope
from rota.errors import NotFoundError
from rota.hub import Hub
from rota.store.builds import BuildOutput, BuildRow, Builds
from rota.web.bodies import answered
from rota.web.endpoint import NUMBER, Answer, Routes, endpoint

TEXT = "text/plain; charset=utf-8"
LOOK = 0.2  # seconds between two looks for more


class BuildDocument(msgspec.Struct):
    """One build: `state` is waiting, running, done, failed, cancelled or lost."""

    id: int
    app: str
    source: str
    state: str
    artifact: str | None
    reason: str
    actor: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class BuildResource:
    """One of them."""

    def __init__(self, hub: Hub) -> None:
        """Show those of this hub."""
        self._hub = hub
        self._builds = Builds(hub.database)
        self._output = BuildOutput(hub.database)

    @endpoint(Scope.APPS_READ, "A build", answers={200: Answer("How it stands.", BuildDocument)})
    async def on_get(self, req: Request, resp: Response, build: int) -> None:
        """Answer how it stands."""
        row = await self._found(build)
        answered(
            resp,
            BuildDocument(
                id=row.id,
                app=row.app,
                source=row.source,
                state=row.state.value,
                artifact=row.artifact,
                reason=row.reason,
                actor=row.actor,
                created_at=row.created_at,
                started_at=row.started_at,
                ended_at=row.ended_at,
            ),
        )

    @endpoint(
        Scope.APPS_READ,
        "What a build says, until it ends",
        answers={200: Answer("Its output, from the beginning.", media=TEXT)},
    )
    async def on_get_output(self, req: Request, resp: Response, build: int) -> None:
        """Stream the output; the stream ends with the build, or when this process is to end."""
        await self._found(build)
        resp.content_type = TEXT
        resp.set_header("Cache-Control", "no-store")
        resp.set_header("X-Accel-Buffering", "no")
        resp.stream = self._follow(build)

    async def _follow(self, build: int) -> AsyncIterator[bytes]:
        last, ended = 0, False
        while True:
            pieces = await self._output.after(build, last)
            for number, text in pieces:
                last = number
                yield text.encode()
            if pieces:
                continue
            if ended or self._hub.draining.is_set():
                return
            row = await self._builds.find(build)
            ended = row is None or row.state.ended  # and look once more for what came before it
            if not ended:
                await asyncio.sleep(LOOK)

    async def _found(self, build: int) -> BuildRow:
        row = await self._builds.find(build)
        if row is None:
            raise NotFoundError(f"There is no build {build}.", "`rota deploy` says the number of its build.")
        return row


def add_routes(routes: Routes, hub: Hub) -> None:
    """Add them to a web process's app."""
    resource = BuildResource(hub)
    routes.add(f"/api/builds/{{build:{NUMBER}}}", resource)
    routes.add(f"/api/builds/{{build:{NUMBER}}}/output", resource, suffix="output")
