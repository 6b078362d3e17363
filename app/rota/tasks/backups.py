"""`backups.scheduler`: the daily backup."""

from datetime import timedelta

from rota.backups.maker import Maker
from rota.coordination.leader import Term
from rota.errors import BackupError
from rota.mail.notices import Operators
from rota.settings import Settings
from rota.store.backups import Backups
from rota.store.database import Database
from rota.store.history import History
from rota.store.tlog import Nudge
from rota.tasks.schedule import due, resting

TOLD = timedelta(hours=12)  # the operators hear of a failure once in a while, however often it fails
LOOK = 30.0  # seconds between two looks at the clock
NAME = "backups.scheduler"


class Scheduler:
    """Makes a backup each day, and finishes what a predecessor left half done."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        nudge: Nudge | None = None,
        operators: Operators | None = None,
    ) -> None:
        """Back up this hub; nudge when an act is put out, and tell the operators when one fails."""
        self._settings = settings
        self._nudge = nudge
        self._operators = operators
        self._database = database

    async def __call__(self, term: Term) -> None:
        """Make a backup each time one is due, until asked to stop."""
        maker = Maker(self._settings, self._database, term, self._nudge)
        records, history = Backups(self._database), History(self._database)
        await maker.recover()
        while True:
            last, failed, now = await records.last_scheduled()
            if due(self._settings.backups.schedule, last, now) and not resting(failed, now):
                await self._back_up(term, maker, history)
            if await term.pause(LOOK):
                return

    async def _back_up(self, term: Term, maker: Maker, history: History) -> None:
        run = await history.begin(term.fence)
        try:
            made = await maker.make()
            removed = await maker.retire()
            outcome = f"made {made.name}, removed {removed} older"
        except BackupError as error:
            outcome = f"failed: {error}"
            await self._tell(term, outcome)
        await history.finish(term.fence, run, outcome)

    async def _tell(self, term: Term, outcome: str) -> None:
        operators = self._operators
        if operators is not None:
            text = f"The daily backup {outcome}.\nIt is tried again; `rota backup list` shows all.\n"
            await self._database.write(lambda tx: operators.tell(tx, "backup", text, TOLD), term.fence)
