"""`/live`: what happens in any process of the hub, as server-sent events."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
import structlog
from falcon.asgi import Request, Response

from rota.access.principal import Principal
from rota.access.scopes import Scope
from rota.coordination.bus.broadcast import Resync
from rota.coordination.bus.events import Live, RoomEvent, Topic
from rota.errors import InputError, RotaError
from rota.hub import Hub
from rota.live import wire
from rota.live.replay import Replay
from rota.live.topics import parse_room, parse_topics, room_topic
from rota.rooms.rooms import Chosen, Rooms
from rota.web.bodies import queried
from rota.web.endpoint import Answer, Routes, endpoint
from rota.web.problems import Problem
from rota.web.streams import ABORT, Stream, Streams

BEAT = 15.0  # seconds between two signs of life on a quiet stream
GUARD = 3.0  # seconds between two looks whether those who listen still may
SOONEST, LATEST = 200, 4000  # milliseconds within which a stopping process's clients come back elsewhere

EVENTS = "text/event-stream; charset=utf-8"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}

Revoked = Callable[[Collection[Principal]], Awaitable[set[Principal]]]

log = structlog.get_logger("rota.live")


class Listening(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a stream is to carry: topics with commas between, or one room, or both.

    `since` is the id up to which the client knows everything; a browser that
    reconnects sends a newer one as Last-Event-ID.
    """

    topic: str = ""
    room: str = ""
    since: str = ""


class Happened(msgspec.Struct, frozen=True):
    """The text of an event `live`."""

    topic: str
    kind: str


class Feed:
    """What this process tells: the replay buffer, the rooms, the streams, and what runs beside them.

    It is Falcon middleware for its own start and stop.
    """

    def __init__(self, hub: Hub, revoked: Revoked) -> None:
        """Tell what the bus of this hub says; `revoked` says who may no longer listen."""
        self.streams = Streams()
        self.rooms = Rooms()
        self._hub = hub
        self._revoked = revoked
        self._replay = Replay()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def newest(self) -> str:
        """The id of the newest event: a page that is rendered now knows everything up to it."""
        return self._replay.newest

    async def process_startup(self, scope: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        """Begin to listen."""
        for name, work in (
            ("live", self._hear_live),
            ("rooms", self._hear_rooms),
            ("beat", self._beat),
            ("guard", self._guard),
            ("drain", self._drain),
        ):
            self._tasks.append(asyncio.create_task(work(), name=f"live.{name}"))

    async def process_request(self, req: Request, resp: Response) -> None:
        """Note up to which event this request's page will know everything: before it looks at anything."""
        req.context.since = self.newest

    async def process_shutdown(self, scope: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        """End."""
        for task in self._tasks:
            task.cancel()

    def open(self, principal: Principal, listening: Listening, last: str) -> Stream:
        """Return a new stream, with what its client has missed. Raises InputError or Problem."""
        topics = parse_topics(listening.topic)
        if listening.room:
            topics |= {room_topic(parse_room(listening.room))}
        if not topics:
            raise InputError("this stream would carry nothing", "Name a topic, as ?topic=acts, or a room.")
        if self._hub.draining.is_set():
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "Stopping",
                "This process is stopping.",
                "Try again: another process of the hub takes over.",
                headers={"Retry-After": "1"},
            )
        self.streams.admit(principal)
        stream = self.streams.open(principal, topics, lambda _: self._left(principal, listening.room))
        self._greet(stream, last)
        if listening.room:
            self._entered(principal, listening.room, stream)
        return stream

    def _greet(self, stream: Stream, last: str) -> None:
        """Send what was missed since `last`, or that nobody knows what was."""
        missed = self._replay.since(last, stream.topics, _now()) if last else []
        if missed is None:
            self.streams.counts.reloads += 1
            stream.put(wire.event("reload", number=self.newest))
            return
        stream.put(wire.mark(self.newest) if not missed else b"".join(told.data for told in missed))

    def _entered(self, principal: Principal, room: str, stream: Stream) -> None:
        if self.rooms.join(room, principal.name):
            self._tell_presence(room)
        stream.put(wire.event("snapshot", _json(self.rooms.look(room))))

    def _left(self, principal: Principal, room: str) -> None:
        if room and self.rooms.leave(room, principal.name):
            self._tell_presence(room)

    def _tell_presence(self, room: str) -> None:
        """Say who is here: it is not numbered, since whoever comes back is told anyway."""
        self.streams.tell(room_topic(room), wire.event("presence", _json(self.rooms.look(room).present)))

    def _tell(self, topic: str, name: str, text: str) -> None:
        told = self._replay.add(topic, lambda number: wire.event(name, text, number=number), _now())
        self.streams.tell(topic, told.data)

    def _resync(self) -> None:
        """Tell everyone to read again: nobody knows what was missed."""
        self._replay.forget()
        self.streams.counts.reloads += len(self.streams)
        self.streams.tell_all(wire.event("reload", number=self.newest))

    async def _hear_live(self) -> None:
        with self._hub.together.bus.subscribe(Topic.LIVE) as heard:
            async for event in heard:
                if isinstance(event, Resync):
                    self._resync()
                elif isinstance(event, Live):
                    self._tell(event.topic, "live", _json(Happened(event.topic, event.kind)))

    async def _hear_rooms(self) -> None:
        """Keep every choice, whoever is here. After a gap `_hear_live` tells everyone to read again."""
        with self._hub.together.bus.subscribe(Topic.ROOMS) as heard:
            async for event in heard:
                if isinstance(event, RoomEvent):
                    self._choose(event)

    def _choose(self, event: RoomEvent) -> None:
        try:
            chosen = msgspec.json.decode(event.event, type=Chosen)
        except msgspec.MsgspecError as error:
            log.warning("a choice cannot be read", room=event.room, reason=str(error))
            return
        self.rooms.choose(event.room, chosen)
        self._tell(room_topic(event.room), "room", event.event)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            for stream in self.streams:
                stream.put(wire.BEAT)

    async def _guard(self) -> None:
        """End the streams of those whose token or session is over. While nobody can tell, they stay."""
        while True:
            await asyncio.sleep(GUARD)
            callers = self.streams.callers()
            if not callers:
                continue
            try:
                over = await self._revoked(callers)
            except RotaError as error:
                log.debug("whether streams may stay is not known", reason=str(error))
            else:
                self.streams.end(over, wire.event("revoked"))

    async def _drain(self) -> None:
        """Once this process stops, send every client elsewhere, not all of them in one moment."""
        await self._hub.draining.wait()
        for stream in self.streams:
            stream.end(wire.event("elsewhere", retry=random.randint(SOONEST, LATEST)))  # noqa: S311 - spreads load


class LiveResource:
    """`/live`."""

    def __init__(self, feed: Feed) -> None:
        """Serve this process's feed."""
        self._feed = feed

    @endpoint(
        Scope.HUB_READ,
        "What happens, as server-sent events",
        answers={
            200: Answer("Events `live`, `room`, `presence`, `snapshot`, `reload`, `elsewhere`.", media=EVENTS)
        },
        query=Listening,
    )
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer a stream that ends when its client leaves, may no longer listen, or this process stops."""
        if req.get_header("Sec-Fetch-Site") in ("cross-site", "same-site"):
            raise Problem(
                HTTPStatus.FORBIDDEN,
                "From another site",
                "A page of another site asks for this stream.",
                "Use the hub's own pages; a program sends an API token.",
            )
        listening = queried(req, Listening)
        last = req.get_header("Last-Event-ID") or listening.since
        stream = self._feed.open(req.context.principal, listening, last)
        stream.abort = req.scope.get(ABORT)
        resp.stream = stream
        resp.content_type = EVENTS
        resp.set_headers(HEADERS)

    @endpoint(
        Scope.HUB_READ,
        "Whether one may listen",
        answers={200: Answer("One may.", media=EVENTS)},
        query=Listening,
    )
    async def on_head(self, req: Request, resp: Response) -> None:
        """Answer as GET would begin to."""
        parse_topics(queried(req, Listening).topic)
        resp.content_type = EVENTS
        resp.set_headers(HEADERS)


def add_routes(routes: Routes, feed: Feed) -> None:
    """Add the stream."""
    routes.add("/live", LiveResource(feed))


def _now() -> float:
    return asyncio.get_running_loop().time()


def _json(document: Any) -> str:
    return msgspec.json.encode(document).decode()
