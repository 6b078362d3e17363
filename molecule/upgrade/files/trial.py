"""`/trial/…`: a quick answer, one that takes two seconds, and a stream.

Of the scenario's build, never of the product.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import falcon
from falcon.asgi import Request, Response

from rota import __version__
from rota.hub import Hub
from rota.web.app import App

BROKEN = __version__.endswith("broken")
SLOW = 2.0  # seconds
BEAT = 0.5  # seconds between two lines of the stream


def add_trial(app: App, hub: Hub) -> None:
    """Add the routes to an app, and a fault to a build that is to be broken."""
    app.add_route("/trial/quick", Answer(hub, 0.0))
    app.add_route("/trial/slow", Answer(hub, SLOW))
    app.add_route("/trial/stream", Stream(hub))
    if BROKEN:
        app.add_middleware(NeverWell())


class NeverWell:
    """Serves, and is never well."""

    async def process_request(self, req: Request, _resp: Response) -> None:
        """Refuse to say that all is well."""
        if req.path == "/health":
            raise falcon.HTTPServiceUnavailable(title="Broken", description="This build is never well.")


class Answer:
    """Says who answers, after a while; POST gives back what it was sent besides."""

    def __init__(self, hub: Hub, seconds: float) -> None:
        """Take so many seconds."""
        self._hub = hub
        self._seconds = seconds

    async def on_get(self, _req: Request, resp: Response) -> None:
        """Answer."""
        await asyncio.sleep(self._seconds)
        resp.media = {"name": self._hub.settings.name, "version": __version__}

    async def on_post(self, req: Request, resp: Response) -> None:
        """Answer with what came."""
        sent = await req.get_media()
        await self.on_get(req, resp)
        resp.media = {**resp.media, "sent": sent}


class Stream:
    """Beats until the process is told to stop, then tells its reader to reconnect and ends."""

    def __init__(self, hub: Hub) -> None:
        """Watch this hub."""
        self._hub = hub

    async def on_get(self, _req: Request, resp: Response) -> None:
        """Begin a stream."""
        resp.content_type = "text/event-stream"
        resp.set_header("Cache-Control", "no-store")
        resp.stream = self._events()

    async def _events(self) -> AsyncIterator[bytes]:
        name, draining = self._hub.settings.name, self._hub.draining
        yield f"event: hello\ndata: {name} {__version__}\n\n".encode()
        while not draining.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT):
                    await draining.wait()
            yield b": beat\n\n"
        yield b"event: reconnect\ndata:\n\n"
