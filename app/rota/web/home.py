"""The first page: what this process does, leads and knows."""

from falcon.asgi import Request, Response

from rota.access.scopes import Scope
from rota.errors import RotaError
from rota.hub import Hub
from rota.store.backups import BackupRecord, Backups
from rota.store.history import Execution, History
from rota.store.leaders import Leaders, Led
from rota.web.endpoint import HTML, Answer, endpoint
from rota.web.pages import Pages

SHOWN = 8  # rows of history and of backups on the page


class HomeResource:
    """The page at `/`."""

    def __init__(self, hub: Hub, pages: Pages) -> None:
        """Show this hub."""
        self._hub = hub
        self._pages = pages

    @endpoint(Scope.HUB_READ, "The first page", answers={200: Answer("The page.", media=HTML)}, page=True)
    async def on_get(self, req: Request, resp: Response) -> None:
        """Render what is known now."""
        led, executions, backups, unread = await self._read()
        jobs = await self._hub.together.watch.look() if not unread else None
        self._pages.show(
            req,
            resp,
            "home.html",
            leaders={row.task: row for row in led},
            executions=executions,
            backups=backups,
            unread=unread,
            jobs=jobs,
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
