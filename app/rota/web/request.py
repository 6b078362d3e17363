"""What every request passes through: its id, its host, its measure."""

import itertools
import re
import secrets
import time

import falcon
from falcon.asgi import Request, Response

from rota.logging import answering
from rota.web.metrics import Metrics

_GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_GOOD_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?")


class RequestId:
    """Gives each request an id, which its log lines and its answer carry.

    A proxy's id is taken over when it is harmless; nothing is decided by it.
    """

    def __init__(self) -> None:
        """Begin a series of ids that no other process has."""
        self._prefix = secrets.token_hex(6)
        self._numbers = itertools.count(1)

    async def process_request(self, req: Request, resp: Response) -> None:
        """Choose the id and bind it to the logging of this request."""
        given = req.get_header("X-Request-ID")
        if given is None or not _GOOD_ID.fullmatch(given):
            given = f"{self._prefix}-{next(self._numbers)}"
        answering.set(given)
        resp.set_header("X-Request-ID", given)


class StrictHost:
    """Refuses a request without exactly one well-formed Host header."""

    async def process_request(self, req: Request, resp: Response) -> None:
        """Raise 400 with the reason."""
        hosts = [value for name, value in req.scope["headers"] if name == b"host"]
        if len(hosts) != 1:
            raise falcon.HTTPBadRequest(
                title="Host header",
                description="A request needs exactly one Host header: send the name you call.",
            )
        if not _GOOD_HOST.fullmatch(hosts[0].decode("latin-1")):
            raise falcon.HTTPBadRequest(
                title="Host header", description="The Host header is not NAME or NAME:PORT."
            )


class StrictPath:
    """Refuses a path with NUL in it: nothing is called so, and PostgreSQL takes no such text."""

    async def process_request(self, req: Request, resp: Response) -> None:
        """Raise 404."""
        if "\0" in req.path:
            raise falcon.HTTPNotFound


class Measure:
    """Counts and times each request by its route, never by its raw path."""

    def __init__(self, metrics: Metrics) -> None:
        """Record into these metrics."""
        self._metrics = metrics

    async def process_request(self, req: Request, resp: Response) -> None:
        """Note the start."""
        req.context.began = time.perf_counter()

    async def process_response(
        self, req: Request, resp: Response, resource: object, req_succeeded: bool
    ) -> None:
        """Record the end. What was refused before the start was noted has no duration."""
        began = getattr(req.context, "began", None)
        if began is not None:
            route = req.uri_template or "unknown"
            self._metrics.observe(req.method, route, resp.status_code, time.perf_counter() - began)
