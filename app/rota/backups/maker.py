"""Makes, publishes, retires and verifies backups.

A backup appears under its name only by a rename, and only after its row says
`complete` in a transaction that still held the epoch. So a process that lost
its lock publishes nothing, and what has its name is whole.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import structlog

from rota import __version__
from rota.acts.act import Act
from rota.backups.archive import Manifest, file_digest, read_archive, write_archive
from rota.backups.dump import check_dump, dump
from rota.coordination.leader import Term
from rota.errors import BackupError, FencedError, RotaError
from rota.settings import Settings
from rota.settings.describe import describe, secrets_of
from rota.store.backups import BackupRecord, Backups
from rota.store.database import Database
from rota.store.tlog import Nudge

SUFFIX = ".tar.zst"
PARTIAL = ".partial"
OPERATORS_LONGEST = timedelta(days=1)

log = structlog.get_logger("rota.backups")


@dataclass(frozen=True)
class Made:
    """A published backup; `size` in bytes, `digest` BLAKE3 in hex."""

    name: str
    path: Path
    size: int
    digest: str


class Maker:
    """Makes backups for the leader of `backups.scheduler`, or, without a term, for an operator."""

    def __init__(
        self, settings: Settings, database: Database, term: Term | None = None, nudge: Nudge | None = None
    ) -> None:
        """Back up this hub into the directory that its settings name."""
        self._settings = settings
        self._term = term
        self._fence = term.fence if term else None
        self._database = database
        self._records = Backups(database, nudge)
        self._directory = settings.backup_directory

    async def make(self) -> Made:
        """Make and publish one backup. Raises BackupError; the row then says why."""
        name = f"rota-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}{SUFFIX}"
        await self._records.begin(name, self._fence)
        try:
            return await self._make(name)
        except FencedError:
            await self._discard(name)
            raise
        except (OSError, RotaError) as error:
            reason = str(error) or type(error).__name__
            await self._give_up(name, reason)
            raise BackupError(f"{name}: {reason}") from error
        except asyncio.CancelledError:
            if self._term is None:  # a leader's successor recovers; nobody comes after an operator
                await self._give_up(name, "interrupted")
            raise
        finally:
            await asyncio.to_thread(shutil.rmtree, self._scratch(name), ignore_errors=True)

    async def retire(self) -> int:
        """Remove the oldest beyond the number to keep; return how many.

        What a wrong clock dated into the future counts as oldest: it must not outlive each new one.
        """
        _, _, now = await self._records.last_scheduled()
        complete = [record for record in await self._records.all() if record.state == "complete"]
        complete.sort(key=lambda record: record.started_at > now)  # and else newest first, as they came
        surplus = complete[self._settings.backups.keep :]
        for record in surplus:
            self._check()
            await self._records.remove(record.name, self._fence, self._act("backup.remove", record.name))
            await self._unlink(record.name)
        return len(surplus)

    async def recover(self) -> None:
        """Finish or give up what a predecessor left half done."""
        _, _, now = await self._records.last_scheduled()
        for record in await self._records.all():
            # An operator's may be under way in another process, but not for that long.
            dead = record.cause == "schedule" or now - record.started_at > OPERATORS_LONGEST
            if record.state == "running" and dead:
                await self._give_up(record.name, "its process ended before it was whole")
                await asyncio.to_thread(shutil.rmtree, self._scratch(record.name), ignore_errors=True)
            elif record.state == "complete":
                await asyncio.to_thread(self._publish_late, record)
            elif record.state == "removed":
                await self._unlink(record.name)

    def list_files(self) -> list[Path]:
        """Return the published backups, newest first."""
        return sorted(self._directory.glob(f"rota-*{SUFFIX}"), reverse=True)

    def find(self, name: str) -> Path:
        """Return the file of a backup by its name, or by a path to it. Raises BackupError."""
        path = self._directory / (Path(name).absolute() if "/" in name else name)
        if path.parent != self._directory or not path.is_file():
            raise BackupError(
                f"{self._directory} holds no backup {name!r}: `rota backup list` shows which there are"
            )
        return path

    async def _make(self, name: str) -> Made:
        await asyncio.to_thread(self._directory.mkdir, 0o700, parents=True, exist_ok=True)
        scratch, partial = self._scratch(name), self._partial(name)
        await asyncio.to_thread(scratch.mkdir, 0o700)
        copy = await dump(self._settings, scratch)
        manifest = {
            "name": name,
            "version": __version__,
            "schema": (await self._database.pulse()).schema,
            "database": "sqlite" if self._settings.sqlite else "postgresql",
        }
        files = await asyncio.to_thread(self._files, copy)
        size, digest = await asyncio.to_thread(write_archive, partial, manifest, files)
        self._check()
        act = self._act("backup.make", name, size=size, blake3=digest)
        if not await self._records.complete(name, size, digest, self._fence, act):
            raise BackupError("someone else ended this backup meanwhile")
        target = self._directory / name
        await asyncio.to_thread(_publish, partial, target)
        log.info("backup made", name=name, bytes=size)
        return Made(name, target, size, digest)

    def _files(self, copy: Path) -> Mapping[str, Path | bytes]:
        files: dict[str, Path | bytes] = {f"database/{copy.name}": copy}
        files["settings.json"] = msgspec.json.encode(describe(self._settings))
        if self._settings.keys_directory.is_dir():
            for key in sorted(self._settings.keys_directory.iterdir()):
                files[f"keys/{key.name}"] = key.read_bytes()
        for name, secret in secrets_of(self._settings).items():
            files[f"keys/credentials/{name}"] = secret.reveal().encode()
        return files

    def _publish_late(self, record: BackupRecord) -> None:
        """Do the rename that a predecessor recorded and did not come to."""
        partial, target = self._partial(record.name), self._directory / record.name
        if not target.exists() and partial.exists() and file_digest(partial) == record.digest:
            _publish(partial, target)
            log.info("backup published late", name=record.name)

    def _act(self, kind: str, name: str, **details: object) -> bytes:
        actor = self._fence.task if self._fence else "operator on the host"
        return bytes(Act(kind=kind, actor=actor, subject=name, details=details))

    def _check(self) -> None:
        if self._term is not None:
            self._term.check()

    async def _give_up(self, name: str, reason: str) -> None:
        """Record a failure and discard the file, unless the row says that it is whole, for `recover`."""
        if await self._records.fail(name, reason, self._fence):
            await self._discard(name)

    async def _discard(self, name: str) -> None:
        await self._unlink(self._partial(name).name)

    async def _unlink(self, file: str) -> None:
        """Remove a file of the destination: elsewhere, for a disk that hangs must not hold up the process."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            await asyncio.to_thread((self._directory / file).unlink)

    def _scratch(self, name: str) -> Path:
        return self._directory / f".{name}.d"

    def _partial(self, name: str) -> Path:
        return self._directory / f".{name}{PARTIAL}"


async def verify(path: Path) -> Manifest:
    """Check every byte of a backup against its manifest, and the database in it. Raises BackupError."""
    found: Manifest | None = None
    for manifest, member, copy in read_archive(path):
        found = manifest
        if member.path.startswith("database/"):
            await check_dump(copy)
    if found is None:
        raise BackupError(f"{path} is empty")
    return found


def _publish(partial: Path, target: Path) -> None:
    partial.rename(target)
    directory = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
