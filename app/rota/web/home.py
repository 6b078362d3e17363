"""The first page: what this process does, leads and knows."""

from datetime import UTC, datetime

import jinja2
from falcon.asgi import Request, Response

from rota.errors import RotaError
from rota.hub import Hub
from rota.store.backups import BackupRecord, Backups
from rota.store.history import Execution, History
from rota.store.leaders import Leaders, Led

SHOWN = 8  # rows of history and of backups on the page

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class HomeResource:
    """The page at `/`. It needs no database: what cannot be read is said to be so."""

    def __init__(self, hub: Hub) -> None:
        """Show this hub."""
        self._hub = hub
        environment = jinja2.Environment(
            loader=jinja2.PackageLoader("rota.web"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            enable_async=True,
        )
        environment.filters["when"] = _when
        environment.filters["size"] = _size
        self._template = environment.get_template("home.html")

    async def on_get(self, req: Request, resp: Response) -> None:
        """Render what is known now."""
        health = self._hub.health
        led, executions, backups, unread = await self._read()
        jobs = await self._hub.together.watch.look() if not unread else None
        resp.content_type = "text/html; charset=utf-8"
        resp.cache_control = ["no-store"]
        resp.set_headers(
            {
                "Content-Security-Policy": _POLICY,
                "Referrer-Policy": "no-referrer",
                "X-Content-Type-Options": "nosniff",
            }
        )
        resp.text = await self._template.render_async(
            health=health,
            leaders={row.task: row for row in led},
            executions=executions,
            backups=backups,
            unread=unread,
            jobs=jobs,
            now=datetime.now(UTC),
        )

    async def _read(self) -> tuple[list[Led], list[Execution], list[BackupRecord], str]:
        database = self._hub.database
        if not self._hub.health.database.reachable:
            return [], [], [], self._hub.health.reason
        try:
            return (
                await Leaders(database).all(),
                await History(database).recent(SHOWN),
                (await Backups(database).all())[:SHOWN],
                "",
            )
        except RotaError as error:
            return [], [], [], str(error)


def _when(moment: datetime | None) -> str:
    return "—" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def _size(count: int | None) -> str:
    if count is None:
        return "—"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":  # noqa: PLR2004 - the step between units
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError(count)
