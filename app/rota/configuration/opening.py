"""Shows values to who may see them. A web process asks; the primary's worker, which has the key, answers.

The answer lies in the database sealed to a key that the asking process made for it alone.
"""

import asyncio
import base64

import msgspec
import structlog

from rota.configuration.vault import Answering, Sealer, Vault
from rota.coordination.queue.job import NewJob
from rota.coordination.queue.kinds import Job
from rota.coordination.queue.queue import Queue
from rota.errors import ConflictError, RotaError
from rota.settings import Settings
from rota.store.configurations import Configurations, Opening
from rota.store.database import Database, Transaction

KIND = "configuration.open"
WITHIN = 20.0  # seconds until an answer must be there
LOOK = 0.05  # seconds between two looks
OLD = 600.0  # seconds after which a wish that nobody fetched is forgotten

log = structlog.get_logger("rota.configuration")


class Asking:
    """What a web process does."""

    def __init__(self, database: Database, queue: Queue) -> None:
        """Ask over this database."""
        self._database = database
        self._queue = queue
        self._configurations = Configurations(database)

    async def values(self, app: str, number: int) -> dict[str, bytes]:
        """Return the values of a version. Raises ConflictError where nobody can open them."""
        answering = Answering()

        async def ask(tx: Transaction) -> int:
            wish = await Configurations.ask(tx, app, number, answering.public)
            await self._queue.enqueue(tx, NewJob(kind=KIND, payload={"wish": wish}))
            return wish

        wish = await self._database.write(ask)
        try:
            async with asyncio.timeout(WITHIN):
                opening = await self._answered(wish)
        except TimeoutError as error:
            raise ConflictError(
                f"No worker of the primary has opened the values within {WITHIN:g} s.",
                "Start one; `rota queue list` shows what waits.",
            ) from error
        finally:
            await self._database.write(lambda tx: Configurations.forget(tx, wish, OLD))
        if opening.sealed is None:
            raise ConflictError(
                f"The values cannot be opened: {opening.reason}.", "See the worker's journal."
            )
        opened = await asyncio.to_thread(answering.open, _about(wish), opening.sealed)
        found = msgspec.json.decode(opened, type=dict[str, str])
        return {name: base64.b64decode(value) for name, value in found.items()}

    async def _answered(self, wish: int) -> Opening:
        while True:
            opening = await self._configurations.opening(wish)
            if opening is not None and (opening.sealed is not None or opening.reason):
                return opening
            await asyncio.sleep(LOOK)


class Opener:
    """What the primary's worker does."""

    def __init__(self, settings: Settings, database: Database) -> None:
        """Open with this hub's key."""
        self._vault = Vault(settings)
        self._database = database
        self._configurations = Configurations(database)

    async def tell(self) -> None:
        """Say to which key values are to be sealed; a hub without one says nothing."""
        try:
            public = await asyncio.to_thread(lambda: self._vault.public)
        except ConflictError as error:
            log.warning("this hub takes no configuration", reason=str(error), remedy=error.remedy)
            return
        await self._database.write(lambda tx: Configurations.tell_key(tx, public))

    async def open(self, job: Job) -> None:
        """Answer one wish, or say why not."""
        wish = int(job.payload["wish"])
        opening = await self._configurations.opening(wish)
        if opening is None:
            return  # nobody waits for it any more
        sealed, reason = None, ""
        try:
            sealed = await self._sealed(opening)
        except RotaError as error:
            reason = str(error)

        async def work(tx: Transaction) -> None:
            await Configurations.answer(tx, wish, sealed, reason)
            await job.finish(tx)

        await self._database.write(work)

    async def _sealed(self, opening: Opening) -> str:
        row = await self._configurations.find(opening.app, opening.number)
        values = await asyncio.to_thread(self._vault.open, row)
        told = {name: base64.b64encode(value).decode() for name, value in values.items()}
        sealer = Sealer(opening.public)
        return await asyncio.to_thread(sealer.seal, _about(opening.id), msgspec.json.encode(told))


def _about(wish: int) -> str:
    return f"answer\0{wish}"
