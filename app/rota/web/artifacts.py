"""Artifacts over HTTP: sources come in from those who deploy, servers fetch what was built.

Both go to the primary, where the artifact store is; the proxy sends them there.
"""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import msgspec
from falcon.asgi import Request, Response

from rota.access.scopes import Gate, Scope
from rota.artifacts.chunking import MOST_CHUNKS, RECORD, written
from rota.artifacts.receiving import Arrival, Receiving, Wanted
from rota.artifacts.store import PART, ArtifactStore, checked_hash
from rota.errors import BusyError, InputError, NotFoundError
from rota.hub import Hub
from rota.releases.names import checked_app
from rota.store.artifacts import Artifacts
from rota.web.bodies import answered, queried, read_body
from rota.web.endpoint import OCTETS, Answer, Routes, endpoint
from rota.web.problems import Problem
from rota.web.signed import SignedRequests

PRIMARY_ONLY = "The artifact store is on the primary."


class SpanDocument(msgspec.Struct):
    """Bytes to send: from `start` up to `end`, without it."""

    start: int
    end: int


class WantedDocument(msgspec.Struct):
    """What the hub still misses of a source."""

    missing: list[SpanDocument]
    complete: bool


class From(msgspec.Struct, forbid_unknown_fields=True):
    """Where the bytes of the body belong."""

    start: Annotated[int, msgspec.Meta(ge=0)]


class SourceResource:
    """A source on its way in."""

    def __init__(self, hub: Hub) -> None:
        """Take sources for this hub."""
        self._hub = hub
        self._store = ArtifactStore(hub.settings.artifacts_directory)

    @endpoint(
        Scope.APPS_WRITE,
        "Say what a source is made of",
        answers={200: Answer("What the hub misses of it.", WantedDocument)},
        octets=True,
    )
    async def on_post(self, req: Request, resp: Response, app: str, artifact: str) -> None:
        """Take the list of chunks; keep the source once nothing is missing."""
        checked_app(app)
        receiving = await self._receiving(artifact)
        listed = await read_body(req, MOST_CHUNKS * RECORD)
        wanted = await asyncio.to_thread(receiving.offer, listed)
        if wanted.complete:
            await self._keep(artifact)
        answered(resp, _wanted(wanted))

    @endpoint(
        Scope.APPS_WRITE,
        "Send bytes of a source",
        query=From,
        answers={200: Answer("Whether that was all of it.", WantedDocument)},
        octets=True,
    )
    async def on_put(self, req: Request, resp: Response, app: str, artifact: str) -> None:
        """Write bytes to their place as they come."""
        checked_app(app)
        start = queried(req, From).start
        receiving = await self._receiving(artifact)
        arrival = await asyncio.to_thread(receiving.take, start)
        try:
            await _written(req, arrival)
            complete = await asyncio.to_thread(arrival.end)
        finally:
            arrival.close()
        if complete:
            await self._keep(artifact)
        answered(resp, WantedDocument([], complete))

    async def _receiving(self, artifact: str) -> Receiving:
        if not self._hub.settings.server.primary:
            raise _elsewhere()
        return await asyncio.to_thread(Receiving, self._store, checked_hash(artifact))

    async def _keep(self, artifact: str) -> None:
        size = self._store.path(artifact).stat().st_size
        await self._hub.database.write(lambda tx: Artifacts.add(tx, artifact, "", size, "source"))
        if not self._store.holds(artifact):
            raise BusyError("this source was just being cleared away")


class ArtifactResource:
    """An artifact, for servers."""

    def __init__(self, hub: Hub, signed: SignedRequests) -> None:
        """Give those of this hub to servers."""
        self._hub = hub
        self._signed = signed
        self._store = ArtifactStore(hub.settings.artifacts_directory)

    @endpoint(
        Gate.OWN,
        "An artifact's bytes, as a server asks for them",
        answers={
            200: Answer("All of them.", media=OCTETS),
            206: Answer("Those of the range.", media=OCTETS),
            401: Answer("No server signed this."),
        },
        limited=False,
    )
    async def on_get(self, req: Request, resp: Response, artifact: str) -> None:
        """Stream an artifact, or a range of it."""
        await self._signed.server(req)
        path = await self._found(artifact)
        size = path.stat().st_size
        start, end = _range(req, size)
        resp.content_type = OCTETS
        resp.content_length = end - start
        resp.set_header("Accept-Ranges", "bytes")
        resp.set_header("Cache-Control", "no-store")
        if req.get_header("Range"):
            resp.status = "206 Partial Content"
            resp.set_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        resp.stream = _read(self._store, artifact, start, end)

    @endpoint(
        Gate.OWN,
        "The chunks of an artifact, as a server asks for them",
        answers={
            200: Answer("A list of BLAKE3 and size of each, 36 bytes.", media=OCTETS),
            401: Answer("No server signed this."),
        },
        limited=False,
    )
    async def on_get_chunks(self, req: Request, resp: Response, artifact: str) -> None:
        """Answer the list of chunks."""
        await self._signed.server(req)
        await self._found(artifact)
        resp.content_type = OCTETS
        resp.set_header("Cache-Control", "no-store")
        resp.data = written(await asyncio.to_thread(self._store.chunks, artifact))

    async def _found(self, artifact: str) -> Path:
        if not self._hub.settings.server.primary:
            raise _elsewhere()
        path = self._store.path(artifact)
        if not path.exists():
            raise NotFoundError(f"The artifact {artifact} is not in the store.", "Deploy the app anew.")
        await self._hub.database.write(lambda tx: Artifacts.use(tx, artifact))
        return path


def add_routes(routes: Routes, hub: Hub, signed: SignedRequests) -> None:
    """Add them to a web process's app."""
    artifact = ArtifactResource(hub, signed)
    routes.add("/api/apps/{app}/sources/{artifact}", SourceResource(hub))
    routes.add("/artifacts/{artifact}", artifact)
    routes.add("/artifacts/{artifact}/chunks", artifact, suffix="chunks")


async def _written(req: Request, arrival: Arrival) -> None:
    """Write the body to its place, each handful while the next one comes."""
    writing: asyncio.Task[None] | None = None
    try:
        async for pieces in _gathered(req):
            if writing is not None:
                await writing
            writing = asyncio.create_task(asyncio.to_thread(arrival.write, pieces))
    finally:
        if writing is not None:
            await writing


async def _gathered(req: Request) -> AsyncIterator[list[bytes]]:
    """Iterate over the body in handfuls of pieces that are worth a hop to a thread."""
    pieces, size = list[bytes](), 0
    async for data in req.stream:
        pieces.append(data)
        size += len(data)
        if size >= PART:
            yield pieces
            pieces, size = [], 0
    if pieces:
        yield pieces


async def _read(store: ArtifactStore, artifact: str, start: int, end: int) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(store.path(artifact).open, "rb", 0)
    try:
        file.seek(start)
        while start < end:
            part = await asyncio.to_thread(file.read, min(PART, end - start))
            if not part:
                return
            start += len(part)
            yield part
    finally:
        file.close()


def _range(req: Request, size: int) -> tuple[int, int]:
    """Return which bytes are asked for. Raises InputError."""
    given = req.range
    if given is None:
        return 0, size
    first, last = given
    start = size + first if first < 0 else first
    end = size if first < 0 or last < 0 else last + 1
    if not 0 <= start < end <= size:
        raise InputError(f"The artifact has {size} bytes, and not those.", "Ask for some of them.")
    return start, end


def _wanted(wanted: Wanted) -> WantedDocument:
    return WantedDocument([SpanDocument(each.start, each.end) for each in wanted.missing], wanted.complete)


def _elsewhere() -> Problem:
    return Problem(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Not here",
        PRIMARY_ONLY,
        "Ask through the proxy, which sends this to the primary.",
    )
