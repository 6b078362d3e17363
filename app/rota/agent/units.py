"""The seam to whatever runs processes on a server: systemd through rootd, or supervised child processes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from rota.errors import RotaError

State = Literal["starting", "running", "restarting", "failed", "ended"]


class UnitsError(RotaError):
    """What runs processes refused, or could not be asked; the message says which and why."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A copy as it is placed: `memory` in bytes, `processors` in thousandths, 0 for none; `grace` in s."""

    copy: str
    sha256: str
    port: int
    memory: int = 0
    processors: int = 0
    grace: int = 10


@dataclass(frozen=True)
class Seen:
    """How a started copy is. `exit_code` is that of an ended run, by signal N as 128 + N."""

    state: State
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""


class Units(Protocol):
    """Every method may be repeated without harm, and raises UnitsError."""

    async def unpack(self, sha256: str, size: int, archive: Path | None) -> bool:
        """Have an artifact unpacked, or return False where it is not yet and no archive is given."""

    async def forget(self, sha256: str) -> None:
        """Delete an artifact that nothing uses."""

    async def place(self, unit: Unit) -> None:
        """Make a copy ready to start."""

    async def start(self, copy: str, command: str, environment: Mapping[str, bytes] | None) -> None:
        """Start a placed copy, or again with what it had. One that runs goes on as it is."""

    async def stop(self, copy: str) -> None:
        """Stop a copy and delete what it was launched from; return once it has ended."""

    async def seen(self) -> Mapping[str, Seen]:
        """Return how every started copy is."""

    async def last_lines(self, copy: str) -> str:
        """Return the last lines that a copy wrote, none where they are not to be had."""
