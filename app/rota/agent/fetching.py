"""Fetching an artifact from the hub: whole, and verified before anybody sees it. It blocks."""

import http.client
import os
import time
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from blake3 import blake3

from rota.agent.caller import UnreachedError
from rota.agent.files import delete
from rota.agent.memory import AgentMemory
from rota.agent.trust import RefusedError
from rota.tlog.disk import make_directories, sync_directory
from rota.wire.request import EMPTY, HEADER, RequestStatement, header

PATIENCE = 60.0  # seconds without a byte
PIECE = 1 << 20


class Fetching:
    """Archives below the agent's directory, each named by its BLAKE3."""

    def __init__(self, memory: AgentMemory, name: str) -> None:
        """Fetch in the name of this server."""
        self._memory = memory
        self._name = name
        self._directory = memory.directory / "artifacts"

    def fetch(self, artifact: str, size: int) -> Path:
        """Return where the archive lies. Raises RefusedError for a wrong one, UnreachedError."""
        path = self._directory / artifact
        if path.is_file():
            return path
        link = self._memory.link
        if link is None:
            raise RefusedError("this server is not enrolled")
        make_directories(self._directory)
        _check_room(self._directory, size)
        draft = self._directory / f".{artifact}"
        found = self._download(link.url, artifact, size, draft)
        if found != artifact:
            delete(draft)
            raise RefusedError(
                f"what the hub gave for the artifact is {found[:16]}…, and not {artifact[:16]}…"
            )
        draft.rename(path)
        sync_directory(self._directory)
        return path

    def forget(self, artifact: str) -> None:
        """Delete an archive that may be gone already."""
        delete(self._directory / artifact)

    def _download(self, url: str, artifact: str, size: int, draft: Path) -> str:
        """Write an archive's bytes to a file, exactly so many, and return their BLAKE3."""
        parts = urlsplit(url)
        target = f"{parts.path.rstrip('/')}/artifacts/{artifact}"
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=PATIENCE)
        hasher, count = blake3(), 0
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                connection.request("GET", target, headers={HEADER: self._statement(target)})
                with connection.getresponse() as response:
                    if response.status == HTTPStatus.NOT_FOUND:
                        raise RefusedError(f"the hub has no artifact {artifact[:16]}…")
                    if response.status != HTTPStatus.OK:
                        raise UnreachedError(f"the artifact: the hub answered {response.status}")
                    while piece := response.read(min(PIECE, size + 1 - count)):
                        count += len(piece)
                        hasher.update(piece)
                        file.write(piece)
                file.flush()
                os.fsync(descriptor)
        except (OSError, http.client.HTTPException) as error:
            raise UnreachedError(
                f"the artifact cannot be fetched: {error or type(error).__name__}"
            ) from error
        finally:
            connection.close()
        if count < size:
            raise UnreachedError(f"the artifact ended after {count} of {size} bytes")
        return hasher.hexdigest()

    def _statement(self, target: str) -> str:
        link = self._memory.link
        assert link is not None  # noqa: S101 - `fetch` has looked
        statement = RequestStatement(
            audience=link.hub,
            sender=self._name,
            method="GET",
            target=target,
            body=EMPTY,
            issued_at=time.time_ns() // 1000,
        )
        return header(statement, self._memory.key)


def _check_room(directory: Path, size: int) -> None:
    """Refuse what will not fit: the archive, rootd's copy of it, and its tree."""
    free = os.statvfs(directory)
    if free.f_bavail * free.f_frsize < 3 * size:
        raise RefusedError(f"the disk has too little room for an artifact of {size} bytes: three times that")
