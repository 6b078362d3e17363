"""What every request passes through: its id, its host, its measure."""

import re
import secrets
import time

import falcon
import structlog
from falcon.asgi import Request, Response

from rota.web.metrics import Metrics

_GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_GOOD_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?")


class RequestId:
    """Gives each request an id, which its log lines and its answer carry.

    A proxy's id is taken over when it is harmless; nothing is decided by it.
    """

    async def process_request(self, req: Request, resp: Response) -> None:
        """Choose the id and bind it to the logging of this request."""
        given = req.get_header("X-Request-ID") or ""
        chosen = given if _GOOD_ID.fullmatch(given) else secrets.token_hex(8)
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request=chosen)
        resp.set_header("X-Request-ID", chosen)


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
        """Record the end. A request refused before it began to be measured has no duration."""
        began = getattr(req.context, "began", None)
        if began is not None:
            route = req.uri_template or "unknown"
            self._metrics.observe(req.method, route, resp.status_code, time.perf_counter() - began)
