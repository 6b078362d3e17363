"""The first page: what the hub's processes do and lead, its queue, its log, its backups."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from falcon import HTTPError
from falcon.asgi import Request, Response

from rota.access.scopes import Scope
from rota.acts.search import Acts, Found, Wanted
from rota.errors import RotaError
from rota.hub import Hub
from rota.store.backups import BackupRecord, Backups
from rota.store.history import Execution, History
from rota.store.jobs import Count, State
from rota.store.leaders import Leaders, Led
from rota.tlog.notes import parse_note
from rota.tlog.publication import Publication
from rota.tlog.view import View
from rota.web.endpoint import HTML, Answer, endpoint
from rota.web.pages import Pages
from rota.web.tlog import asked

SHOWN = 8  # rows of acts, of history and of backups on the page


@dataclass(frozen=True)
class Process:
    """One process of the hub, as the leaders' rows name it, and what it took the lead of last."""

    holder: str
    leads: tuple[Led, ...]
    here: bool


@dataclass(frozen=True)
class LogHead:
    """The newest checkpoint: how many entries, how many witnesses agree, and when it was published."""

    origin: str
    size: int
    cosignatures: int
    published_at: datetime


@dataclass(frozen=True)
class Kept:
    """What the database holds; `unread` is why it could not be read."""

    led: Sequence[Led] = ()
    executions: Sequence[Execution] = ()
    backups: Sequence[BackupRecord] = ()
    unread: str = ""


@dataclass(frozen=True)
class Logged:
    """What the log's files hold; `unread` is why they could not be read."""

    head: LogHead | None = None
    acts: Sequence[Found] = field(default_factory=list)
    unread: str = ""


class HomeResource:
    """The page at `/`."""

    def __init__(self, hub: Hub, pages: Pages, acts: Acts) -> None:
        """Show this hub."""
        self._hub = hub
        self._pages = pages
        self._acts = acts
        self._publication = Publication(hub.settings.tlog_directory)
        self._here = f"{hub.settings.name}:{os.getpid()}"

    @endpoint(Scope.HUB_READ, "The first page", answers={200: Answer("The page.", media=HTML)}, page=True)
    async def on_get(self, req: Request, resp: Response) -> None:
        """Render what is known now."""
        kept = await self._read()
        jobs = await self._hub.together.watch.look() if not kept.unread else None
        may = req.context.principal.may
        self._pages.show(
            req,
            resp,
            "home.html",
            kept=kept,
            leaders={row.task: row for row in kept.led},
            processes=processes(kept.led, self._here),
            jobs=None if jobs is None else by_kind(jobs),
            log=await self._read_log(with_acts=may(Scope.TLOG_READ)),
        )

    async def _read(self) -> Kept:
        database = self._hub.database
        if not self._hub.health.database.reachable:
            return Kept(unread=self._hub.health.reason)
        try:
            return Kept(
                await Leaders(database).all(),
                await History(database).recent(SHOWN),
                (await Backups(database).all())[:SHOWN],
            )
        except RotaError as error:
            return Kept(unread=str(error))

    async def _read_log(self, *, with_acts: bool) -> Logged:
        def read() -> Logged:
            found = self._acts.search(Wanted(), rows=SHOWN).found[:SHOWN] if with_acts else []
            return Logged(log_head(self._publication), found)

        try:
            return await asked(read)
        except HTTPError as error:
            return Logged(unread=error.description or "")


def processes(led: Sequence[Led], here: str) -> list[Process]:
    """Return every process that leads something, and this one, by name."""
    holders = sorted({row.holder for row in led} | {here})
    return [
        Process(holder, tuple(row for row in led if row.holder == holder), holder == here)
        for holder in holders
    ]


def by_kind(counts: Sequence[Count]) -> dict[str, dict[State, int]]:
    """Return for each kind how many jobs are in each state."""
    kinds: dict[str, dict[State, int]] = {}
    for count in counts:
        kinds.setdefault(count.kind, dict.fromkeys(State, 0))[count.state] += count.jobs
    return dict(sorted(kinds.items()))


def log_head(publication: Publication) -> LogHead | None:
    """Return the newest checkpoint, None before the first. It blocks. Raises OSError, TlogError."""
    data = publication.checkpoint()
    if data is None:
        return None
    checkpoint, _ = View(publication).checkpoint()
    at = datetime.fromtimestamp(publication.published_at(), UTC)
    return LogHead(checkpoint.origin, checkpoint.size, len(parse_note(data).signatures) - 1, at)
