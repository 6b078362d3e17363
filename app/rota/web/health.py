"""`/health`, `/health/process` and `/version`, answered from what is known already."""

import falcon
import msgspec
from falcon.asgi import Request, Response

from rota import __version__
from rota.hub import Hub
from rota.store.migrations import program_schema


class HealthResource:
    """Whether this process can do its work; 503 with the reason when it cannot."""

    def __init__(self, hub: Hub) -> None:
        """Speak of this hub."""
        self._hub = hub

    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer from the last refreshed view."""
        health = self._hub.health
        resp.status = falcon.HTTP_503 if health.reason else falcon.HTTP_200
        _json(resp, health.document())


class ProcessHealthResource:
    """What the proxy checks: nothing but whether this process takes requests.

    A database outage must not take every web process out of the proxy.
    """

    def __init__(self, hub: Hub) -> None:
        """Speak of this hub."""
        self._hub = hub

    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer 200 while serving and 503 while draining."""
        draining = self._hub.draining.is_set()
        if draining:
            resp.status = falcon.HTTP_503
        _json(resp, {"status": "draining" if draining else "serving"})


class VersionResource:
    """Which program this is."""

    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer the version and the schema number."""
        _json(resp, {"version": __version__, "schema": program_schema()})


def _json(resp: Response, document: dict[str, object]) -> None:
    resp.content_type = "application/json"
    resp.set_header("Cache-Control", "no-store")
    resp.data = msgspec.json.encode(document)
