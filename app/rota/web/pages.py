"""The pages: one environment of templates, the same headers on each."""

from datetime import UTC, datetime
from typing import Any

import jinja2
from falcon.asgi import Request, Response

from rota.hub import Hub
from rota.web.endpoint import HTML

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


class Pages:
    """Renders templates for one hub. What every page shows: the hub, who is signed in, the path."""

    def __init__(self, hub: Hub) -> None:
        """Show this hub."""
        self._hub = hub
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("rota.web"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters["when"] = when
        self._environment.filters["size"] = size

    def show(self, req: Request, resp: Response, template: str, **values: Any) -> None:
        """Answer a page."""
        resp.content_type = HTML
        resp.set_headers(HEADERS)
        resp.text = self._environment.get_template(template).render(
            health=self._hub.health,
            principal=req.context.get("principal"),
            here=req.path,
            now=datetime.now(UTC),
            **values,
        )


def when(moment: datetime | None) -> str:
    """Return a moment as people read it."""
    return "—" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S UTC")


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
