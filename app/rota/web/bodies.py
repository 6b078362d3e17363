"""What comes in and goes out: strict JSON, browsers' forms, queries."""

from http import HTTPStatus
from typing import Any, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from falcon.asgi import Request, Response

from rota.web.endpoint import JSON
from rota.web.problems import Problem

T = TypeVar("T")

LONGEST = 65_536  # bytes of a body
FORM = "application/x-www-form-urlencoded"
SCHEMA = "/openapi.json describes what this route takes."


async def received(req: Request, kind: type[T], longest: int = LONGEST) -> T:
    """Return the body as a value of this type, from JSON or a browser's form. Raises Problem."""
    media = (req.content_type or "").partition(";")[0].strip().lower()
    if media not in (JSON, FORM):
        raise Problem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "Not JSON",
            f"The body is sent as {media or 'nothing named'}, and this route takes {JSON}.",
            f"Send Content-Type: {JSON}.",
        )
    data = await read_body(req, longest)
    try:
        if media == JSON:
            return msgspec.json.decode(data, type=kind)
        return msgspec.convert(_form(data, kind), kind, strict=False, str_keys=True)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise Problem(HTTPStatus.BAD_REQUEST, "Body not understood", f"{error}.", SCHEMA) from error


def queried(req: Request, kind: type[T]) -> T:
    """Return the query as a value of this type. Raises Problem."""
    try:
        return msgspec.convert(_form(req.query_string.encode(), kind), kind, strict=False, str_keys=True)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise Problem(HTTPStatus.BAD_REQUEST, "Query not understood", f"{error}.", SCHEMA) from error


def answered(resp: Response, document: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
    """Answer a document as JSON, never to be kept."""
    resp.status = f"{status.value} {status.phrase}"
    resp.content_type = JSON
    resp.set_header("Cache-Control", "no-store")
    resp.data = msgspec.json.encode(document)


def is_form(req: Request) -> bool:
    """Tell whether a browser's form is being sent: it is answered by a redirect to a page."""
    return (req.content_type or "").startswith(FORM)


def see(resp: Response, page: str) -> None:
    """Lead a browser on to a page of ours."""
    resp.status = "303 See Other"
    resp.location = page


async def read_body(req: Request, longest: int) -> bytes:
    """Return the whole body, whatever it holds. Raises Problem."""
    data = bytearray()
    async for chunk in req.stream:
        data += chunk
        if len(data) > longest:
            raise Problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "Too long",
                f"This route takes {longest} bytes at most.",
                "Send less.",
            )
    return bytes(data)


def _form(data: bytes, kind: type) -> dict[str, str | list[str]]:
    """Read a form: what is a list in this type may come any number of times. Raises ValueError.

    A browser sends nothing of choices that are not ticked: an empty value beside them says that the list
    is there.
    """
    found: dict[str, list[str]] = {}
    pairs = parse_qsl(data.decode(), keep_blank_values=True, strict_parsing=bool(data), max_num_fields=100)
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    lists = {field.encode_name for field in msgspec.structs.fields(kind) if _is_list(field.type)}
    return {name: _shaped(values, is_list=name in lists) for name, values in found.items()}


def _shaped(values: list[str], *, is_list: bool) -> str | list[str]:
    if is_list:
        return [value for value in values if value]
    return values if len(values) > 1 else values[0]


def _is_list(kind: Any) -> bool:
    return any(get_origin(each) is list for each in (kind, *get_args(kind)))
