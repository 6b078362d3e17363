"""`maintenance.nightly`: prunes what is old and makes sure that the database is well."""

import asyncio

from rota.coordination.leader import Term
from rota.releases.retention import Retention
from rota.settings import Settings
from rota.store.backups import Backups
from rota.store.builds import BuildOutput
from rota.store.database import Database
from rota.store.deliveries import Deliveries
from rota.store.history import History
from rota.store.jobs import Jobs
from rota.store.sessions import Sessions
from rota.store.tlog import Outbox
from rota.store.tokens import Tokens
from rota.store.webhooks import Notices
from rota.tasks.schedule import due

LOOK = 30.0  # seconds between two looks at the clock
NAME = "maintenance.nightly"


class Nightly:
    """The upkeep of one hub."""

    def __init__(self, settings: Settings, database: Database) -> None:
        """Keep this database."""
        self._settings = settings.maintenance
        self._database = database
        self._retention = Retention(settings, database)

    async def __call__(self, term: Term) -> None:
        """Run the upkeep each time it is due, until asked to stop."""
        history = History(self._database)
        while True:
            last, now = await history.last(NAME)
            if due(self._settings.schedule, last, now):
                await self._upkeep(term, history)
            if await term.pause(LOOK):
                return

    async def _upkeep(self, term: Term, history: History) -> None:
        run = await history.begin(term.fence)
        days = self._settings.keep_days
        rows = await history.prune(term.fence, days)
        rows += await Backups(self._database).prune(term.fence, days)
        rows += await Jobs(self._database).prune(term.fence, days)
        rows += await Outbox(self._database).prune(term.fence, days)
        rows += await Deliveries(self._database).prune(term.fence, days)
        rows += await BuildOutput.prune(self._database, term.fence, days)
        rows += await Notices.prune(self._database, term.fence, days)
        rows += await Sessions(self._database).prune(term.fence)
        rows += await Tokens(self._database).prune(term.fence, days)
        row = await self._database.read(lambda tx: tx.one("schema.check"))
        problems = row["problems"] if row else None
        verdict = f"has problems: {problems}" if problems else "is well"
        removed = await self._retention.clear(term.fence)
        damaged = await asyncio.to_thread(self._retention.damaged, run)
        artifacts = f"; removed {removed} artifacts" if removed else ""
        artifacts += f"; damaged are {', '.join(damaged)}: deploy their apps anew" if damaged else ""
        await history.finish(term.fence, run, f"pruned {rows} rows; the database {verdict}{artifacts}")
