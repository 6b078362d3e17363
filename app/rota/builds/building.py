"""Builds a source once, on the primary: what the job `build.run` does."""

import asyncio
import contextlib
import struct
from pathlib import Path

import msgspec
import structlog

from rota.artifacts.measuring import measure
from rota.artifacts.mirroring import Mirroring
from rota.artifacts.room import check_room
from rota.artifacts.store import PART, ArtifactStore
from rota.builds.frames import BYTES, HEAD, MADE, ORDER, OUTPUT, WRONG, Made, Order, head, packed
from rota.builds.output import Output
from rota.builds.sandbox import Pipe, Sandbox, passed, sandbox_of
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import Live
from rota.coordination.queue.kinds import Job
from rota.coordination.queue.queue import Queue
from rota.errors import RotaError
from rota.settings import Settings
from rota.store.artifacts import Artifacts
from rota.store.builds import BuildOutput, BuildRow, Builds, BuildState
from rota.store.database import Database, Transaction

KIND = "build.run"
LEASE = 30.0  # seconds until another worker takes over the build of one that ended
TRIES = 3
LIMIT = 86_400.0  # seconds of an attempt; the build itself is bounded by [builds] time_limit
TICK = 0.25  # seconds between two looks at what there is to keep
LOOK = 1.0  # seconds between two looks at whether somebody cancelled
TIMES = 3  # a build's room on the disk: its source, what it makes of it, its artifact
MOST = 16 << 30  # bytes of an artifact
PAGES = "app:{}"

log = structlog.get_logger("rota.builds")


class _EndedError(RotaError):
    """Nothing comes of a build; the message says why."""


class Building:
    """Builds for one hub."""

    def __init__(self, settings: Settings, database: Database, queue: Queue, bus: Bus) -> None:
        """Build into this hub's artifact store."""
        self._settings = settings
        self._database = database
        self._bus = bus
        self._store = ArtifactStore(settings.artifacts_directory)
        self._sandbox: Sandbox = sandbox_of(settings)
        self._mirroring = Mirroring(settings, database, queue)

    async def run(self, job: Job) -> None:
        """Build what a row says. An attempt after another one begins anew."""
        build = int(job.payload["build"])
        row = await self._begin(build)
        if row is None:
            return
        output = Output(self._database, self._bus, build)
        try:
            made, path = await self._build(row, output)
            await self._keep(job, row, made, path)
        except _EndedError as error:
            await output.end()
            await self._end(job, row, str(error))
        except RotaError as error:  # the disk, the sandbox: an operator's to mend
            await output.end()
            await self._end(job, row, f"The hub could not build it: {error}")
        self._bus.publish(Live(PAGES.format(row.app), "build"))

    async def _begin(self, build: int) -> BuildRow | None:
        """Say that it runs; return None where it has ended."""

        async def work(tx: Transaction) -> BuildRow | None:
            if not await Builds.begin(tx, build):
                return None
            await BuildOutput.silence(tx, build)
            return await Builds.within(tx, build)

        return await self._database.write(work)

    async def _build(self, row: BuildRow, output: Output) -> tuple[Made, Path]:
        """Have it built; return what was made and where the archive lies. Raises _EndedError."""
        source = self._store.path(row.source)
        if not source.exists():
            raise _EndedError("Its source is no longer in the artifact store. Deploy again.")
        size = source.stat().st_size
        await asyncio.to_thread(self._store.partial, row.source)  # makes the directory
        check_room(self._store.directory, TIMES * size, "this build")
        path = self._store.partial(row.source).with_name(f"build-{row.id}")
        limit = self._settings.builds.time_limit
        try:
            async with asyncio.timeout(limit), self._sandbox.open() as pipe, asyncio.TaskGroup() as group:
                watching = [group.create_task(self._watch(row.id)), group.create_task(_flush(output))]
                sending = group.create_task(self._send(pipe, source, size))
                made = await _receive(pipe, output, path)
                for task in (*watching, sending):
                    task.cancel()
        except TimeoutError as error:
            raise _EndedError(
                f"It took longer than {limit} s: see [builds] time_limit of the hub."
            ) from error
        except BaseExceptionGroup as group_error:
            raise _first(group_error) from group_error
        await output.end()
        return made, path

    async def _send(self, pipe: Pipe, source: Path, size: int) -> None:
        order = Order(size, self._settings.builds.memory_mb << 20, passed())
        with contextlib.suppress(ConnectionError), source.open("rb", buffering=0) as file:
            pipe.writer.write(packed(ORDER, msgspec.json.encode(order)))
            while part := await asyncio.to_thread(file.read, PART):
                pipe.writer.write(part)
                await pipe.writer.drain()

    async def _watch(self, build: int) -> None:
        """Raise _EndedError once somebody has cancelled it."""
        builds = Builds(self._database)
        while True:
            await asyncio.sleep(LOOK)
            row = await builds.find(build)
            if row is None or row.state.ended:
                raise _EndedError("It was cancelled.")

    async def _keep(self, job: Job, row: BuildRow, made: Made, path: Path) -> None:
        """Keep the artifact, and say that the build is done."""
        measured = await asyncio.to_thread(measure, path)
        if self._store.holds(measured.hash):
            await asyncio.to_thread(path.unlink)
        else:
            await asyncio.to_thread(self._store.publish, path, measured.hash, measured.chunks)

        async def work(tx: Transaction) -> None:
            await Artifacts.add(tx, measured.hash, measured.sha256, measured.size, "build")
            await Builds.finish(tx, row.id, measured.hash, made.manifest)
            await job.finish(tx)

        await self._database.write(work)
        if not self._store.holds(measured.hash):
            raise RotaError("its artifact was just being cleared away: deploy again")
        log.info("built", app=row.app, build=row.id, artifact=measured.hash, size=measured.size)
        await self._mirroring.copy(row.app, measured.hash)

    async def _end(self, job: Job, row: BuildRow, reason: str) -> None:
        """Say why nothing comes of it; one that was cancelled stays so."""

        async def work(tx: Transaction) -> None:
            await Builds.end(tx, row.id, BuildState.FAILED, reason)
            await job.finish(tx)

        await self._database.write(work)
        log.info("build failed", app=row.app, build=row.id, reason=reason)


async def _receive(pipe: Pipe, output: Output, path: Path) -> Made:
    """Take what the build answers. Raises _EndedError."""
    made: Made | None = None
    left = 0
    try:
        with path.open("wb", buffering=0) as file:
            while made is None or left:
                kind, length = head(await pipe.reader.readexactly(HEAD.size))
                data = await pipe.reader.readexactly(length)
                if kind == OUTPUT:
                    output.say(data)
                elif kind == WRONG:
                    raise _EndedError(data.decode("utf-8", "replace"))
                elif kind == MADE and made is None:
                    made = msgspec.json.decode(data, type=Made)
                    left = made.size
                    check_room(path.parent, left, "the artifact of this build")
                elif kind == BYTES and len(data) <= left <= MOST:
                    await asyncio.to_thread(file.write, data)
                    left -= len(data)
                else:
                    raise _EndedError("The build answered what has no place there.")
    except (EOFError, OSError, ValueError, struct.error) as error:
        raise _EndedError(
            "The build ended without an answer: it was killed, or used more memory than it may."
        ) from error
    return made


async def _flush(output: Output) -> None:
    while True:
        await asyncio.sleep(TICK)
        await output.flush()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error that says most of a group."""
    errors = list(group.exceptions)
    return next((each for each in errors if isinstance(each, _EndedError)), errors[0])
