"""Errors as answers: `application/problem+json` (RFC 9457) for programs, a page for people."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import falcon
import msgspec
import structlog
from falcon.asgi import Request, Response

from rota.errors import (
    BusyError,
    ConflictError,
    InputError,
    NotFoundError,
    RotaError,
    TlogError,
    UnreachableError,
)
from rota.logging import answering
from rota.web.pages import Pages

log = structlog.get_logger("rota.web")

MEDIA = "application/problem+json"

# What to do about a refusal that says nothing itself.
REMEDIES = {
    400: "Correct the request; /openapi.json describes every route.",
    403: "Use an account or a token with the scope that this needs.",
    404: "Check the address; /openapi.json lists every route.",
    405: "Use one of the methods in the answer's Allow header.",
    411: "Send a Content-Length.",
    413: "Send less at once.",
    415: "Send application/json.",
    429: "Try again in the seconds that Retry-After says.",
    503: "Try again in a few seconds.",
}


# The caller's own mistakes.
_CALLERS = {
    InputError: (HTTPStatus.BAD_REQUEST, "Cannot be used"),
    NotFoundError: (HTTPStatus.NOT_FOUND, "Not found"),
    ConflictError: (HTTPStatus.CONFLICT, "Conflict"),
}


class Document(msgspec.Struct, frozen=True):
    """A problem, as programs get it."""

    type: str
    title: str
    status: int
    detail: str
    remedy: str


class Problem(falcon.HTTPError):
    """A refusal: what is wrong, and what to do about it."""

    def __init__(
        self,
        status: HTTPStatus,
        title: str,
        detail: str,
        remedy: str,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Answer with this status; a refusal is never kept by a cache."""
        kept = {"Cache-Control": "no-store", **(headers or {})}
        super().__init__(status, title=title, description=detail, headers=kept)
        self.remedy = remedy


class Problems:
    """Turns every error into an answer."""

    def __init__(self, pages: Pages) -> None:
        """Show people these pages."""
        self._pages = pages

    def serialize(self, req: Request, resp: Response, error: falcon.HTTPError) -> None:
        """Write an error in the form that the caller prefers."""
        document = Document(
            type="about:blank",
            title=error.title or "Error",
            status=error.status_code,
            detail=error.description or _plain(error),
            remedy=getattr(error, "remedy", "") or REMEDIES.get(error.status_code, ""),
        )
        if req.client_prefers([MEDIA, "application/json", "text/html"]) == "text/html":
            self._pages.show(req, resp, "problem.html", problem=document, request=answering.get())
        else:
            resp.content_type = MEDIA
            resp.data = msgspec.json.encode(document)

    async def refused(self, req: Request, resp: Response, error: RotaError, params: dict[str, Any]) -> None:
        """Answer an error that an operator or a caller can act on."""
        raise as_problem(error) from error

    async def crashed(self, req: Request, resp: Response, error: Exception, params: dict[str, Any]) -> None:
        """Answer 500 without details; the details are in the journal under the request's id."""
        if isinstance(error, falcon.HTTPError | falcon.HTTPStatus):
            raise error
        log.error("request crashed", method=req.method, path=req.path, exc_info=error)
        raise Problem(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "Internal error",
            "A fault of the hub itself.",
            "Look into the journal of this process for the request's id, and report what it says.",
        )


def as_problem(error: RotaError) -> Problem:
    """Return the answer for an error of the program."""
    for kind, (status, title) in _CALLERS.items():
        if isinstance(error, InputError) and type(error) is kind:
            return Problem(status, title, str(error), error.remedy)
    if isinstance(error, UnreachableError):
        return _unavailable(
            "The database cannot be reached",
            "The hub cannot answer this without its database.",
            "Try again in a few seconds; /health says why.",
        )
    if isinstance(error, BusyError):
        return _unavailable("Busy", str(error), "Try again in a few seconds.")
    log.error("request refused", reason=str(error), exc_info=error)
    if isinstance(error, TlogError):
        return _unavailable(
            "The log cannot take this",
            "Nothing was done: an act that cannot be logged is not carried out.",
            "On a host of the hub, `rota tlog fsck` says what is wrong with the log. Then try again.",
        )
    return _unavailable("Cannot be done now", "The hub could not do this.", "Its journal says why.")


def _unavailable(title: str, detail: str, remedy: str) -> Problem:
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, title, detail, remedy, headers={"Retry-After": "2"})


def _plain(error: falcon.HTTPError) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return "There is nothing at this address."
    return str(error.status)
