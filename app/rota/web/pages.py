"""The pages: one environment of templates, the same headers on each."""

from datetime import UTC, datetime
from typing import Any

import jinja2
import msgspec
from falcon.asgi import Request, Response

from rota.access.principal import Principal
from rota.hub import Hub
from rota.web.endpoint import HTML, Routes

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


# The pages that every page leads to, for those who may open them.
MENU = (
    ("/", "Home"),
    ("/acts", "Acts"),
    ("/queue", "Queue"),
    ("/webhooks", "Webhooks"),
    ("/rooms", "Rooms"),
    ("/tokens", "Tokens"),
    ("/settings", "Settings"),
)


class Pages:
    """Renders templates for one hub. What every page shows: the hub, who is signed in, the path."""

    def __init__(self, hub: Hub, routes: Routes) -> None:
        """Show this hub, and lead to those pages of the menu that are among these routes."""
        self._hub = hub
        self._routes = routes
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("rota.web"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters["when"] = when
        self._environment.filters["clock"] = clock
        self._environment.filters["day"] = day
        self._environment.filters["moment"] = moment
        self._environment.filters["size"] = size
        self._environment.filters["plain"] = plain

    def show(self, req: Request, resp: Response, template: str, **values: Any) -> None:
        """Answer a page."""
        resp.content_type = HTML
        resp.set_headers(HEADERS)
        resp.text = self._environment.get_template(template).render(
            health=self._hub.health,
            principal=(principal := req.context.get("principal")),
            menu=self._menu(principal),
            here=req.path,
            at=req.relative_uri,
            since=req.context.get("since", ""),
            now=datetime.now(UTC),
            **values,
        )

    def _menu(self, principal: Principal | None) -> list[tuple[str, str]]:
        """Return what this caller may open."""
        if principal is None:
            return []
        found = [(path, name, self._routes.find(path, "GET")) for path, name in MENU]
        return [(path, name) for path, name, route in found if route and principal.may(route.needs)]


def when(at: datetime | None) -> str:
    """Return a moment as people read it."""
    return "—" if at is None else at.strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(at: datetime | None) -> str:
    """Return a moment in little room: without the year, and in UTC without saying so."""
    return "—" if at is None else at.strftime("%m-%d %H:%M:%S")


def day(at: datetime | None) -> str:
    """Return a moment's day."""
    return "—" if at is None else at.strftime("%Y-%m-%d")


def moment(microseconds: int) -> datetime:
    """Return the moment that is so many microseconds after 1970."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)


def plain(value: object) -> str:
    """Return a value of JSON's kinds as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(map(plain, value)) or "—"
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    return "—" if value is None or value == "" else str(value)


def size(count: int | None) -> str:
    """Return a number of bytes as people read it."""
    if count is None:
        return "—"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":  # noqa: PLR2004 - the step between units
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError(count)
