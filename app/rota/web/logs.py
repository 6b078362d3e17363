"""`POST /logs` takes output from servers, `/api/apps/{app}/logs` gives it to people."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from falcon.asgi import Request, Response

from rota.access.scopes import Gate, Scope
from rota.errors import InputError, NotFoundError
from rota.hub import Hub
from rota.logs.parcel import MOST, Lined, Parcel, lined
from rota.logs.shelf import MEGABYTE, Place, Shelf, Wanted
from rota.releases.names import checked_app
from rota.store.apps import Apps
from rota.web.agents import body
from rota.web.bodies import answered, queried
from rota.web.endpoint import Answer, Routes, endpoint
from rota.web.signed import SignedRequests
from rota.wire.answer import DONE
from rota.wire.answer import Answer as Taken

LINES = "application/jsonl"
LOOK = 0.3  # seconds between two looks for more
QUIET = 10.0  # seconds after which a follower is sent an empty line, so that both see that the other is there
Text = Annotated[str, msgspec.Meta(max_length=200)]


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """Which lines: `since` is in microseconds since 1970; with `follow` the answer does not end."""

    count: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 100
    follow: bool = False
    process_type: Text = ""
    server: Text = ""
    instance: Text = ""
    release: Annotated[int, msgspec.Meta(ge=1)] | None = None
    since: Annotated[int, msgspec.Meta(ge=0)] = 0
    contains: Text = ""


class LogsResource:
    """Where servers bring output."""

    def __init__(self, shelf: Shelf, signed: SignedRequests) -> None:
        """Keep it on this shelf."""
        self._shelf = shelf
        self._signed = signed

    @endpoint(
        Gate.OWN,
        "Output of instances, in a request that its server signed",
        answers={200: Answer("It is kept.", Taken)},
        limited=False,
    )
    async def on_post(self, req: Request, resp: Response) -> None:
        """Keep what is not there yet, and only then answer."""
        statement = await self._signed.statement(req)
        data = await body(req, 4 * MOST)
        if hashlib.sha256(data).hexdigest() != statement.body:
            raise InputError("The body is not the one that was signed.", "Send it again.")
        try:
            parcel = msgspec.json.decode(data, type=Parcel)
        except msgspec.MsgspecError as error:
            raise InputError(f"This is no parcel of output: {error}.", "Upgrade the server.") from error
        lines = [lined(statement.sender, part.copy, entry) for part in parcel.parts for entry in part.entries]
        await asyncio.to_thread(self._shelf.append, lines)
        answered(resp, DONE)


class AppLogsResource:
    """What an app has written."""

    def __init__(self, hub: Hub, shelf: Shelf) -> None:
        """Show what is on this shelf."""
        self._hub = hub
        self._shelf = shelf
        self._apps = Apps(hub.database)

    @endpoint(
        Scope.LOGS_READ,
        "An app's output, a JSON object for each line",
        query=Asked,
        answers={200: Answer("The lines, the oldest first.", media=LINES)},
    )
    async def on_get(self, req: Request, resp: Response, app: str) -> None:
        """Stream the newest lines that are wanted, and what follows."""
        asked = queried(req, Asked)
        if await self._apps.find(checked_app(app)) is None:
            raise NotFoundError(f"There is no app {app}.", "`rota apps` shows all.")
        wanted = Wanted(
            process_type=asked.process_type,
            server=asked.server,
            instance=asked.instance,
            release=asked.release,
            since=asked.since,
            contains=asked.contains,
        )
        resp.content_type = LINES
        resp.set_header("Cache-Control", "no-store")
        resp.set_header("X-Accel-Buffering", "no")
        resp.stream = self._lines(app, wanted, asked.count, follow=asked.follow)

    async def _lines(self, app: str, wanted: Wanted, count: int, *, follow: bool) -> AsyncIterator[bytes]:
        lines, place = await asyncio.to_thread(self._shelf.newest, app, wanted, count)
        quiet = 0.0
        while True:
            if lines:
                yield b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
                quiet = 0.0
            if not follow or self._hub.draining.is_set():
                return
            await asyncio.sleep(LOOK)
            quiet += LOOK
            if quiet > QUIET:
                yield b"\n"
                quiet = 0.0
            lines, place = await self._after(app, place, wanted)

    async def _after(self, app: str, place: Place, wanted: Wanted) -> tuple[list[Lined], Place]:
        return await asyncio.to_thread(self._shelf.after, app, place, wanted)


def shelf_of(hub: Hub) -> Shelf:
    """Return the shelf of this hub."""
    return Shelf(hub.settings.logs_directory, hub.settings.logs.keep_mb * MEGABYTE)


def add_routes(routes: Routes, hub: Hub, signed: SignedRequests) -> None:
    """Add them."""
    shelf = shelf_of(hub)
    routes.add("/logs", LogsResource(shelf, signed))
    routes.add("/api/apps/{app}/logs", AppLogsResource(hub, shelf))
