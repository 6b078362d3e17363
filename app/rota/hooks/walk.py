"""From the log to the deliveries: each entry is looked at once, and what came of that is one transaction.

The walk is the only thing that makes deliveries, so that none is lost or made
twice, whoever ends in between: the cursor moves with the rows.
"""

import asyncio

import structlog

from rota.acts.act import Act, read_act
from rota.coordination.epoch import Fence
from rota.errors import MalformedError, TlogError
from rota.hooks.matching import matches
from rota.hooks.message import body_of
from rota.store.database import Database, Transaction
from rota.store.deliveries import Deliveries
from rota.store.webhooks import Cursor, Webhooks
from rota.tlog.disk import Disk
from rota.tlog.following import Stretch, follow

ENTRIES = 2048  # looked at in one transaction, or a few more

log = structlog.get_logger("rota.hooks")


class Walk:
    """Reads the log on from where the database says that it was read."""

    def __init__(self, database: Database, disk: Disk) -> None:
        """Walk this log for the webhooks of this database."""
        self._database = database
        self._webhooks = Webhooks(database)
        self._disk = disk
        self._trouble = ""  # why the log cannot be read: told once

    async def step(self, fence: Fence) -> bool:
        """Look at the next entries; tell whether others wait. Raises FencedError, UnreachableError."""
        cursor = await self._webhooks.cursor()
        try:
            stretch = await asyncio.to_thread(follow, self._disk, cursor.position, cursor.root, ENTRIES)
        except TlogError as error:
            if str(error) != self._trouble:
                log.warning("webhooks cannot read the tlog", reason=str(error))
            self._trouble = str(error)
            return False
        self._trouble = ""
        if stretch.position == cursor.position:
            return False
        moved = await self._database.write(lambda tx: _tell(tx, cursor, stretch), fence)
        return stretch.more and moved


async def _tell(tx: Transaction, cursor: Cursor, stretch: Stretch) -> bool:
    """Make the deliveries of these entries and move the cursor past them."""
    if stretch.root is None or not await Webhooks.move(tx, cursor, stretch.position, stretch.root):
        return False
    webhooks = [webhook for webhook in await Webhooks.within(tx) if webhook.active]
    for entry, data in stretch.entries if webhooks else ():
        act = _act(data)
        for webhook in webhooks:
            if act is not None and entry > webhook.since and matches(webhook.kinds, webhook.app, act):
                await Deliveries.add(tx, webhook.id, entry, act.kind, (act.id, body_of(act, entry)))
    return True


def _act(data: bytes) -> Act | None:
    """Read an entry; nobody is told of one that no act of this program is."""
    try:
        return read_act(data)
    except MalformedError:
        return None
