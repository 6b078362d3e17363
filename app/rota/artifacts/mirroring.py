"""Copies of artifacts elsewhere: made at once after a build, and by a job where that fails."""

import asyncio
import contextlib
import os
import secrets
from pathlib import Path

import aiohttp
import structlog

from rota.artifacts.store import PART, ArtifactStore
from rota.coordination.queue.job import NewJob
from rota.coordination.queue.kinds import Job
from rota.coordination.queue.queue import Queue
from rota.errors import RotaError
from rota.settings import Settings
from rota.store.database import Database
from rota.store.releases import Releases
from rota.tlog.disk import sync_directory

KIND = "mirror.refresh"
WITHIN = 600.0  # seconds for one copy
GOOD = range(200, 300)

log = structlog.get_logger("rota.artifacts")


class MirrorError(RotaError):
    """A copy could not be made; the job will try again."""


class Mirroring:
    """Copies to the directories and addresses of `[artifacts] mirrors`."""

    def __init__(self, settings: Settings, database: Database, queue: Queue) -> None:
        """Copy what is in this hub's store."""
        self._mirrors = settings.artifacts.mirrors
        self._store = ArtifactStore(settings.artifacts_directory)
        self._database = database
        self._queue = queue

    async def copy(self, app: str, artifact: str) -> None:
        """Copy an artifact everywhere; what fails is left to the app's job."""
        try:
            await self._copies([artifact])
        except MirrorError as error:
            log.warning("mirror failed", app=app, artifact=artifact, reason=str(error))
            job = NewJob(kind=KIND, payload={"app": app, "artifact": artifact}, key=app, delay=30)
            await self._database.write(lambda tx: self._queue.enqueue(tx, job))

    async def refresh(self, job: Job) -> None:
        """Copy all artifacts of an app's releases, and the one that was just built. Raises MirrorError."""
        releases = await Releases(self._database).of(str(job.payload["app"]))
        wanted = {str(job.payload["artifact"]), *(release.artifact for release in releases)}
        await self._copies(sorted(each for each in wanted if self._store.holds(each)))

    async def _copies(self, artifacts: list[str]) -> None:
        failed = []
        for mirror in self._mirrors:
            for artifact in artifacts:
                try:
                    await self._one(mirror, artifact)
                except (OSError, aiohttp.ClientError, TimeoutError) as error:
                    failed.append(f"{mirror}: {error or type(error).__name__}")
                    break
        if failed:
            raise MirrorError("; ".join(failed))

    async def _one(self, mirror: str, artifact: str) -> None:
        source = self._store.path(artifact)
        if mirror.startswith("/"):
            await asyncio.to_thread(_to_directory, source, Path(mirror))
            return
        address = f"{mirror.rstrip('/')}/{artifact}"
        timeout = aiohttp.ClientTimeout(total=WITHIN)
        async with aiohttp.ClientSession(timeout=timeout, raise_for_status=False) as client:
            async with client.head(address) as answer:
                there = answer.status in GOOD and answer.content_length == source.stat().st_size
            if there:
                return
            with source.open("rb") as file:
                async with client.put(address, data=file) as answer:
                    if answer.status not in GOOD:
                        raise OSError(f"it answers {answer.status}")


def _to_directory(source: Path, directory: Path) -> None:
    """Copy a file into a directory that is there, whole or not at all. Raises OSError."""
    target = directory / source.name
    if target.exists() and target.stat().st_size == source.stat().st_size:
        return
    draft = directory / f".{source.name}.{secrets.token_hex(4)}"
    try:
        with source.open("rb") as file, draft.open("xb") as copy:
            while part := file.read(PART):
                copy.write(part)
            copy.flush()
            os.fsync(copy.fileno())
        draft.rename(target)
        sync_directory(directory)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
