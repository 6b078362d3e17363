"""Where builds run: a service of one build each, or a child of the hub. Both end with their stream."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rota.builds.frames import LONGEST
from rota.errors import ConfigurationError
from rota.settings import Settings

# What a build may know of the hub's own environment: how to reach the package registries.
PASSED = (
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE"),
    *("PIP_INDEX_URL", "PIP_CONFIG_FILE", "NPM_CONFIG_REGISTRY", "NPM_CONFIG_USERCONFIG"),
)


@dataclass(frozen=True)
class Pipe:
    """The stream to and from one build."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Sandbox(Protocol):
    """Begins builds."""

    @asynccontextmanager
    def open(self) -> AsyncIterator[Pipe]:
        """Begin a build; leaving the block ends it with all that it started. Raises ConfigurationError."""


class UnitSandbox:
    """systemd starts `rota-build@.service` for each connection: a user and a place of its own."""

    def __init__(self, path: Path) -> None:
        """Use this socket."""
        self._path = path

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Pipe]:
        """Connect; the service ends with the connection."""
        try:
            reader, writer = await asyncio.open_unix_connection(self._path, limit=LONGEST)
        except OSError as error:
            raise ConfigurationError(
                f"builds.socket: {self._path} takes no builds: {error.strerror}: is rota-build.socket active?"
            ) from error
        try:
            yield Pipe(reader, writer)
        finally:
            writer.close()


class ChildSandbox:
    """A child with a clean environment and a process group of its own, under the hub's own user."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Pipe]:
        """Start the child; it is killed with its group."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-m", "rota.builds.inside"),
                stdin=theirs.fileno(),
                stdout=asyncio.subprocess.DEVNULL,
                env={name: os.environ[name] for name in PASSED if name in os.environ},
                start_new_session=True,
            )
        reader, writer = await asyncio.open_connection(sock=ours, limit=LONGEST)
        try:
            yield Pipe(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def sandbox_of(settings: Settings) -> Sandbox:
    """Return where this hub's builds run."""
    path = settings.builds.socket
    return UnitSandbox(Path(path)) if path else ChildSandbox()


def passed() -> dict[str, str]:
    """Return what a build is told of the hub's own environment."""
    return {name: os.environ[name] for name in PASSED if name in os.environ}
