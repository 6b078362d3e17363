"""`/health`, `/health/process` and `/version`, answered from what is known already."""

from typing import Any

import falcon
import msgspec
from falcon.asgi import Request, Response

from rota import __version__
from rota.access.scopes import Gate
from rota.hub import Hub
from rota.store.migrations import program_schema
from rota.web.endpoint import Answer, endpoint


class Version(msgspec.Struct, frozen=True):
    """The program's version, and the number of the schema that it brings."""

    version: str
    schema: int


class HealthResource:
    """Whether this process can do its work; 503 with the reason when it cannot."""

    def __init__(self, hub: Hub) -> None:
        """Speak of this hub."""
        self._hub = hub

    @endpoint(
        Gate.PUBLIC,
        "What this process does, and whether it can do its work",
        answers={
            200: Answer("It can.", dict[str, Any]),
            503: Answer("It cannot, and why.", dict[str, Any]),
        },
        limited=False,
    )
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

    @endpoint(
        Gate.PUBLIC,
        "Whether this process takes requests, for the proxy",
        answers={
            200: Answer("It does.", dict[str, str]),
            503: Answer("It is draining.", dict[str, str]),
        },
        limited=False,
    )
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer 200 while serving and 503 while draining."""
        draining = self._hub.draining.is_set()
        if draining:
            resp.status = falcon.HTTP_503
        _json(resp, {"status": "draining" if draining else "serving"})


class VersionResource:
    """Which program this is."""

    @endpoint(Gate.PUBLIC, "Which program this is", answers={200: Answer("The program.", Version)})
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer the version and the schema number."""
        _json(resp, Version(__version__, program_schema()))


def _json(resp: Response, document: object) -> None:
    resp.content_type = "application/json"
    resp.set_header("Cache-Control", "no-store")
    resp.data = msgspec.json.encode(document)
