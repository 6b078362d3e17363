"""The parts of a hub that the log needs, put together in this process, with leadership taken for granted."""

import asyncio
from pathlib import Path

from rota.coordination.epoch import Fence
from rota.coordination.leader import Term
from rota.coordination.local import LocalLocks
from rota.coordination.tenure import Tenure
from rota.settings import Settings
from rota.store.database import Database
from rota.tasks.checkpointer import Checkpointer
from rota.tlog.checkpoint import Checkpoint, parse_checkpoint
from rota.tlog.notes import parse_note

TASK = "tlog.checkpointer"


class Led:
    """A term of a task, for as long as a test wants it."""

    def __init__(self, fence: Fence) -> None:
        tenure = Tenure()
        tenure.renew(asyncio.get_running_loop().time() + 1000)
        self.term = Term(fence, tenure)
        self.running: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """End the task as a resigning leader does."""
        self.term.stopping.set()
        if self.running is not None:
            await asyncio.wait({self.running})


async def lead(database: Database, task: str = TASK) -> Fence:
    """Take the task's lock, whoever held it; return the fence of the new epoch."""
    locks = LocalLocks(database, "test")
    await locks.open()
    (fence,) = await locks.acquire([task])
    return fence


async def checkpointing(settings: Settings, database: Database) -> Led:
    """Start the checkpointer in a new epoch."""
    led = Led(await lead(database))
    led.running = asyncio.create_task(Checkpointer(settings, database)(led.term))
    return led


def published(directory: Path) -> Checkpoint | None:
    """Return the checkpoint that a log serves, its signatures not checked."""
    path = directory / "pub" / "checkpoint"
    return parse_checkpoint(parse_note(path.read_bytes()).text) if path.exists() else None
