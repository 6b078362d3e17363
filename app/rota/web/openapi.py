"""`/openapi.json`: what every route takes and answers, made from the table of routes."""

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from falcon.asgi import Request, Response

from rota import __version__
from rota.access.scopes import Gate, Scope
from rota.web.bodies import FORM
from rota.web.endpoint import JSON, OCTETS, Answer, Endpoint, Routes, endpoint
from rota.web.problems import MEDIA, Document

REF = "#/components/schemas/{name}"
PROBLEM = "Problem"
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
# What the table of routes says twice: HEAD answers as GET does, without a body.
METHODS = ("GET", *UNSAFE)

_FIELD = re.compile(r"\{(\w+)(?::(\w+)(?:\((.*?)\))?)?\}")
_BOUND = re.compile(r"(min|max)=(\d+)")

Schema = dict[str, Any]


class OpenApiResource:
    """The document, made once."""

    def __init__(self, routes: Routes) -> None:
        """Describe these routes, whichever are added until it is asked for."""
        self._routes = routes
        self._document = b""

    @endpoint(
        Gate.PUBLIC,
        "This document (OpenAPI 3.1)",
        answers={200: Answer("The document.", document=dict[str, Any])},
    )
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer the document."""
        if not self._document:
            self._document = msgspec.json.encode(described(self._routes))
        resp.content_type = JSON
        resp.set_header("Cache-Control", "no-cache")
        resp.data = self._document


def described(routes: Iterable[tuple[str, str, Endpoint]]) -> Schema:
    """Return the OpenAPI document of these routes."""
    table = [row for row in routes if row[1] in METHODS]
    kinds = _Kinds(table)
    paths: dict[str, Schema] = {}
    for path, method, declared in table:
        paths.setdefault(plain(path), {})[method.lower()] = _operation(path, method, declared, kinds)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rota", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": kinds.components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "An API token."},
                "session": {"type": "apiKey", "in": "cookie", "name": "rota-session"},
                "metrics": {"type": "http", "scheme": "bearer", "description": "server.metrics_token."},
            },
        },
    }


def plain(path: str) -> str:
    """Return a path without its fields' converters."""
    return _FIELD.sub(r"{\1}", path)


def statuses(path: str, method: str, declared: Endpoint) -> set[int]:
    """Return every status that a route may answer, a fault of the hub apart."""
    found = {*declared.answers, HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE}
    if declared.limited:
        found.add(HTTPStatus.TOO_MANY_REQUESTS)
    if declared.needs is not Gate.PUBLIC:
        found |= {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
    if declared.page and method == "GET" and declared.needs is not Gate.PUBLIC:
        found.add(HTTPStatus.SEE_OTHER)
    if declared.form:
        found.add(HTTPStatus.FORBIDDEN)
    if declared.needs is Gate.OWN or _FIELD.search(path):
        found.add(HTTPStatus.NOT_FOUND)
    if method in UNSAFE:
        found.add(HTTPStatus.CONFLICT)
    if declared.octets:
        found.add(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    if declared.body is not None:
        found |= {HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE}
    return {int(status) for status in found}


class _Kinds:
    """The schemas of every type that the routes name."""

    def __init__(self, table: Iterable[tuple[str, str, Endpoint]]) -> None:
        kinds: list[Any] = [Document]
        for _, _, declared in table:
            kinds += [kind for kind in (declared.body, declared.query) if kind is not None]
            kinds += [answer.document for answer in declared.answers.values() if answer.document is not None]
        schemas, components = msgspec.json.schema_components(kinds, ref_template=REF)
        self._schemas = list(zip(kinds, schemas, strict=True))
        self.components: Schema = {**components, PROBLEM: components["Document"]}

    def schema(self, kind: Any) -> Schema:
        return next(schema for known, schema in self._schemas if known == kind)

    def fields(self, kind: Any) -> tuple[Mapping[str, Schema], list[str]]:
        """Return the fields of a struct, and which are required."""
        found = self.components[self.schema(kind)["$ref"].rpartition("/")[2]]
        return found["properties"], found.get("required", [])


def _operation(path: str, method: str, declared: Endpoint, kinds: _Kinds) -> Schema:
    name = re.sub(r"\W+", "_", f"{method.lower()} {plain(path)}").strip("_")
    operation: Schema = {
        "operationId": name,
        "summary": declared.summary,
        "security": _security(declared),
        "responses": {
            str(status): _response(status, declared, kinds)
            for status in sorted(statuses(path, method, declared))
        },
    }
    parameters = [*_of_path(path), *_of_query(declared, kinds)]
    if parameters:
        operation["parameters"] = parameters
    if declared.body is not None:
        medias = (JSON, FORM) if declared.form else (JSON,)
        content = {media: {"schema": kinds.schema(declared.body)} for media in medias}
        operation["requestBody"] = {"required": True, "content": content}
    if declared.octets:
        operation["requestBody"] = {"required": True, "content": {OCTETS: {}}}
    return operation


def _security(declared: Endpoint) -> list[Schema]:
    if declared.needs is Gate.PUBLIC:
        return []
    if declared.needs is Gate.OWN:
        return [{"metrics": []}]
    scopes = [declared.needs.value] if isinstance(declared.needs, Scope) else []
    return [{"token": scopes}, {"session": scopes}]


def _response(status: int, declared: Endpoint, kinds: _Kinds) -> Schema:
    answer = declared.answers.get(status)
    if answer is None or (status >= HTTPStatus.BAD_REQUEST and answer.document is None):
        description = answer.description if answer else HTTPStatus(status).phrase + "."
        if status == HTTPStatus.SEE_OTHER:
            return {"description": "On to the sign-in."}
        problem = {"schema": {"$ref": REF.format(name=PROBLEM)}}
        return {"description": description, "content": {MEDIA: problem, "text/html": {}}}
    if not answer.media:
        return {"description": answer.description}
    schema = {} if answer.document is None else {"schema": kinds.schema(answer.document)}
    content = {answer.media.partition(";")[0]: schema}
    if declared.form and status < HTTPStatus.MULTIPLE_CHOICES:
        content["text/html"] = {}
    return {"description": answer.description, "content": content}


def _of_path(path: str) -> list[Schema]:
    found = []
    for name, converter, bounds in _FIELD.findall(path):
        schema: Schema = {"type": "string", "minLength": 1}
        if converter == "int":
            limits = {"min": "minimum", "max": "maximum"}
            schema = {"type": "integer"} | {limits[key]: int(value) for key, value in _BOUND.findall(bounds)}
        found.append({"name": name, "in": "path", "required": True, "schema": schema})
    return found


def _of_query(declared: Endpoint, kinds: _Kinds) -> list[Schema]:
    if declared.query is None:
        return []
    fields, required = kinds.fields(declared.query)
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in fields.items()
    ]
