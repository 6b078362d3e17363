"""Fetching an artifact from the hub: what is not here yet, verified before anybody sees it. It blocks."""

import os
import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

from rota.agent.caller import UnreachedError
from rota.agent.memory import AgentMemory
from rota.agent.trust import RefusedError
from rota.artifacts.fetching import fetch
from rota.artifacts.store import ArtifactStore
from rota.artifacts.transfer import RefusedError as SaidNoError
from rota.artifacts.transfer import TransferError, WrongError
from rota.errors import BusyError, ConflictError, InputError
from rota.tlog.disk import make_directories
from rota.wire.request import EMPTY, HEADER, RequestStatement, header


class Fetching:
    """Archives below the agent's directory, named by their BLAKE3; a new one takes from them what it can."""

    def __init__(self, memory: AgentMemory, name: str) -> None:
        """Fetch in the name of this server."""
        self._memory = memory
        self._name = name
        self._directory = memory.directory / "artifacts"
        self._store = ArtifactStore(self._directory)

    def fetch(self, artifact: str, size: int) -> Path:
        """Return where the archive lies. Raises RefusedError for a wrong one, UnreachedError."""
        if self._store.holds(artifact):
            return self._store.path(artifact)
        link = self._memory.link
        if link is None:
            raise RefusedError("this server is not enrolled")
        make_directories(self._directory)
        _check_room(self._directory, size)
        try:
            return fetch(self._store, link.url, self._sign, artifact, size)
        except SaidNoError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise RefusedError(f"the hub has no artifact {artifact[:16]}…") from error
            raise UnreachedError(f"the artifact: {error}") from error
        except (WrongError, ConflictError, InputError) as error:
            raise RefusedError(str(error)) from error
        except (TransferError, BusyError, OSError) as error:
            raise UnreachedError(f"the artifact cannot be fetched: {error}") from error

    def forget(self, artifact: str) -> None:
        """Delete an archive that may be gone already."""
        self._store.remove(artifact)

    def _sign(self, method: str, target: str) -> Mapping[str, str]:
        link = self._memory.link
        assert link is not None  # noqa: S101 - `fetch` has looked
        statement = RequestStatement(
            audience=link.hub,
            sender=self._name,
            method="GET" if method == "GET" else "HEAD",
            target=target,
            body=EMPTY,
            issued_at=time.time_ns() // 1000,
        )
        return {HEADER: header(statement, self._memory.key)}


def _check_room(directory: Path, size: int) -> None:
    """Refuse what will not fit: the archive, rootd's copy of it, and its tree."""
    free = os.statvfs(directory)
    if free.f_bavail * free.f_frsize < 3 * size:
        raise RefusedError(f"the disk has too little room for an artifact of {size} bytes: three times that")
