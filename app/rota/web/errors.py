"""Errors as answers: JSON for programs, a small page for people."""

from html import escape
from http import HTTPStatus
from typing import Any

import falcon
import msgspec
import structlog
from falcon.asgi import Request, Response

log = structlog.get_logger("rota.web")

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title} · Rota</title>
<body style="font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem">
<h1>{title}</h1><p>{description}</p><p><a href="/">Back to the hub</a></p>
"""


def serialize(req: Request, resp: Response, error: falcon.HTTPError) -> None:
    """Write an error in the form that the caller prefers."""
    if req.client_prefers(["application/json", "text/html"]) == "text/html":
        resp.content_type = "text/html; charset=utf-8"
        title = escape(error.title or "Error")
        resp.text = _PAGE.format(title=title, description=escape(error.description or _plain(error)))
    else:
        resp.content_type = "application/json"
        resp.data = msgspec.json.encode(
            {"error": error.title, "description": error.description or _plain(error)}
        )


async def crashed(req: Request, resp: Response, error: Exception, params: dict[str, Any]) -> None:
    """Answer 500 without details; the details are in the journal under the request's id."""
    if isinstance(error, falcon.HTTPError | falcon.HTTPStatus):
        raise error
    log.error("request crashed", method=req.method, path=req.path, exc_info=error)
    raise falcon.HTTPInternalServerError(
        title="Internal error",
        description="A fault of the hub itself. Its journal has the details under this answer's request id.",
    )


def _plain(error: falcon.HTTPError) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return "There is nothing at this address."
    return str(error.status)
