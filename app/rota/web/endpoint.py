"""What each responder says of itself, and the table of all: the program does not start without it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import falcon.asgi

from rota.access.scopes import Needs

App = falcon.asgi.App[falcon.asgi.Request, falcon.asgi.Response]
F = TypeVar("F", bound=Callable[..., Any])

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
JSON = "application/json"
OCTETS = "application/octet-stream"
# A field of a path that is a row's number: no larger than what every reader of JSON reads alike.
NUMBER = "int(min=1, max=9007199254740991)"
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    """One answer of a route: a type that is sent as JSON, or another media type, or nothing."""

    description: str
    document: Any = None
    media: str = JSON


# What a browser's form gets where a program gets a document.
ON_TO_PAGE = Answer("A form: on to the page.", media="")


@dataclass(frozen=True)
class Endpoint:
    """One route and method.

    `body` and `query` are msgspec types, read by `rota.web.bodies`. A `page` is
    for people: who is not signed in is led to the sign-in. A `form` is also
    taken from a browser's form, and then answered by a page or a redirect. One
    that is not `limited` may be asked as often as anybody likes. `octets` is a
    body of plain bytes.
    """

    needs: Needs
    summary: str
    answers: Mapping[int, Answer] = field(default_factory=dict)
    body: Any = None
    query: Any = None
    page: bool = False
    form: bool = False
    limited: bool = True
    octets: bool = False


def endpoint(needs: Needs, summary: str, **rest: Any) -> Callable[[F], F]:
    """Declare a responder. The rest are fields of `Endpoint`."""
    declared = Endpoint(needs, summary, **rest)

    def mark(responder: F) -> F:
        responder.endpoint = declared  # type: ignore[attr-defined]
        return responder

    return mark


class Routes:
    """Every route of one app, by path and method."""

    def __init__(self, app: App) -> None:
        """Add routes to this app."""
        self.app = app
        self._table: dict[tuple[str, str], Endpoint] = {}

    def add(self, path: str, resource: Any, suffix: str | None = None) -> None:
        """Add a resource, answering HEAD wherever it answers GET.

        Raises TypeError for a responder that declares nothing.
        """
        end = f"_{suffix}" if suffix else ""
        if hasattr(resource, f"on_get{end}") and not hasattr(resource, f"on_head{end}"):
            setattr(resource, f"on_head{end}", getattr(resource, f"on_get{end}"))
        for method in METHODS:
            responder = getattr(resource, f"on_{method.lower()}{end}", None)
            if responder is None:
                continue
            declared = getattr(responder, "endpoint", None)
            if declared is None:
                raise TypeError(f"{method} {path} does not declare what it needs")
            self._table[(path, method)] = declared
        self.app.add_route(path, resource, suffix=suffix)

    def find(self, path: str | None, method: str) -> Endpoint | None:
        """Return what a route and method declares; None for what the framework answers itself."""
        return self._table.get((path or "", method))

    def __iter__(self) -> Iterator[tuple[str, str, Endpoint]]:
        """Iterate over (path, method, endpoint), sorted."""
        return iter([(path, method, self._table[path, method]) for path, method in sorted(self._table)])
