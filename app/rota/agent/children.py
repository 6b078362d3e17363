"""Units as supervised child processes, for one machine without root or systemd: a laptop, a test.

Each has a process group of its own and starts again when it ends, ever later. What ran when this process
ended starts again with the next one; what the last one left running is ended first.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rota.agent import launch
from rota.agent.files import delete, load, save, write
from rota.agent.units import Seen, Unit, UnitsError
from rota.archive.extract import ArchiveError, Bounds, extract

SOONEST, LATEST = 1.0, 60.0  # seconds before a process starts again
STEADY = 60.0  # seconds after which it counts as a process that stays up
LINES = 50
LONGEST_LINE = 65_536  # bytes
# Variables that name places in an artifact, which has no /app of its own here.
ROOTED = ("PATH", "PYTHONPATH", "VIRTUAL_ENV")

Told = Callable[[str, bytes], None]  # is told each line that a copy writes


@dataclass
class _Child:
    """One copy that was started."""

    unit: Unit
    seen: Seen = field(default_factory=lambda: Seen("starting"))
    process: asyncio.subprocess.Process | None = None
    task: asyncio.Task[None] | None = None
    lines: deque[bytes] = field(default_factory=lambda: deque(maxlen=LINES))


class ChildUnits:
    """Processes below this one. `open` before anything else, `close` at the end."""

    def __init__(self, directory: Path, told: Told | None = None) -> None:
        """Keep artifacts, and what each copy is launched from, in this directory."""
        self._directory = directory
        self._told = told
        self._children: dict[str, _Child] = {}

    async def open(self) -> None:
        """Start what was started before, each in the place of a process that may have been left behind."""
        for path in sorted((self._directory / "started").glob("[!.]*")):
            unit = load(self._placed(path.name), Unit)
            _end_left(load(self._pid(path.name), list[int]))
            if unit is not None:
                self._supervise(unit)

    async def close(self) -> None:
        """End every process; each will start again at the next `open`."""
        await asyncio.gather(*(self._end(child) for child in self._children.values()))
        self._children.clear()

    async def unpack(self, sha256: str, size: int, archive: Path | None) -> bool:
        """Unpack an artifact."""
        tree = self._tree(sha256)
        if tree.is_dir() or archive is None:
            return tree.is_dir()
        await asyncio.to_thread(_unpack, archive, tree, size)
        return True

    async def forget(self, sha256: str) -> None:
        """Delete an artifact."""
        placed = (load(path, Unit) for path in (self._directory / "placed").glob("[!.]*"))
        if any(unit is not None and unit.sha256 == sha256 for unit in placed):
            raise UnitsError("a placed copy uses this artifact")
        await asyncio.to_thread(shutil.rmtree, self._tree(sha256), ignore_errors=True)

    async def place(self, unit: Unit) -> None:
        """Note a copy."""
        if not self._tree(unit.sha256).is_dir():
            raise UnitsError("the artifact is not unpacked here")
        if load(self._placed(unit.copy), Unit) == unit:
            return
        if unit.copy in self._children:
            raise UnitsError("the copy runs, placed otherwise: stop it first")
        await asyncio.to_thread(save, self._placed(unit.copy), unit)

    async def start(self, copy: str, command: str, environment: Mapping[str, bytes] | None) -> None:
        """Start it."""
        unit = load(self._placed(copy), Unit)
        if unit is None:
            raise UnitsError("the copy is not placed here")
        child = self._children.get(copy)
        if child is not None and child.task is not None and not child.task.done():
            return
        if environment is not None:
            rooted = {name: self._rooted(unit, name, value) for name, value in environment.items()}
            await asyncio.to_thread(write, self._started(copy), launch.written(command, rooted))
        elif not self._started(copy).exists():
            raise UnitsError("the copy has no configuration: start it with one")
        self._supervise(unit)

    async def stop(self, copy: str) -> None:
        """Stop it, and delete what it was launched from."""
        delete(self._started(copy))
        child = self._children.pop(copy, None)
        if child is not None:
            await self._end(child)
        for path in (self._pid(copy), self._placed(copy)):
            delete(path)
        shutil.rmtree(self._directory / "started" / copy, ignore_errors=True)

    async def seen(self) -> Mapping[str, Seen]:
        """Return how each is."""
        return {copy: child.seen for copy, child in self._children.items()}

    async def last_lines(self, copy: str) -> str:
        """Return its last lines."""
        child = self._children.get(copy)
        return b"".join(child.lines if child else ()).decode(errors="replace")

    def _supervise(self, unit: Unit) -> None:
        child = self._children[unit.copy] = _Child(unit)
        child.task = asyncio.create_task(self._live(child), name=f"child {unit.copy}")

    async def _live(self, child: _Child) -> None:
        """Run it again and again; a run, which has a number of its own, once."""
        pause, restarts, once = SOONEST, 0, "." in child.unit.copy.partition("@")[2]
        while True:
            began = time.monotonic()
            code, reason = await self._once(child, restarts)
            if once:
                child.seen = Seen("ended" if code is not None else "failed", exit_code=code, reason=reason)
                return
            pause = SOONEST if time.monotonic() - began > STEADY else min(LATEST, pause * 2)
            child.seen = Seen("restarting", restarts, reason=reason)
            await asyncio.sleep(pause / 2)
            restarts += 1

    async def _once(self, child: _Child, restarts: int) -> tuple[int | None, str]:
        """Run it once; return its exit code, and the reason of its end."""
        copy = child.unit.copy
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", launch.__file__),
                cwd=self._tree(child.unit.sha256),
                env={"CREDENTIALS_DIRECTORY": str(self._started(copy).parent)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                limit=LONGEST_LINE,
            )
        except OSError as error:
            return None, f"it cannot be started: {error}"
        child.process = process
        save(self._pid(copy), [process.pid, _started_at(process.pid)])
        child.seen = Seen("running", restarts)
        reading = asyncio.create_task(self._read(child, process))
        try:
            status = await process.wait()
            _signal_group(process.pid, signal.SIGKILL)  # what it left behind in its group
            await reading
        finally:
            reading.cancel()
            child.process = None
        code = status if status >= 0 else 128 - status
        return code, f"it ended with exit code {code}"

    async def _read(self, child: _Child, process: asyncio.subprocess.Process) -> None:
        """Pass on each line; one that is too long comes in parts."""
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        while True:
            try:
                line = await process.stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError as error:
                line = error.partial
            except asyncio.LimitOverrunError as error:
                line = await process.stdout.readexactly(error.consumed)
            if not line:
                return
            child.lines.append(line)
            if self._told is not None:
                self._told(child.unit.copy, line)

    async def _end(self, child: _Child) -> None:
        """Ask it to end, then make it."""
        process, task = child.process, child.task
        if process is not None:
            _signal_group(process.pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(child.unit.grace):
                    await process.wait()
            _signal_group(process.pid, signal.SIGKILL)
            await process.wait()
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _rooted(self, unit: Unit, name: str, value: bytes) -> bytes:
        if name not in ROOTED:
            return value
        tree = os.fsencode(self._tree(unit.sha256))
        return b":".join(tree + each[4:] if each.startswith(b"/app") else each for each in value.split(b":"))

    def _tree(self, sha256: str) -> Path:
        return self._directory.absolute() / "artifacts" / sha256

    def _placed(self, copy: str) -> Path:
        return self._directory / "placed" / copy

    def _pid(self, copy: str) -> Path:
        return self._directory / "running" / copy

    def _started(self, copy: str) -> Path:
        return self._directory.absolute() / "started" / copy / "configuration"


def _unpack(archive: Path, tree: Path, size: int) -> None:
    fresh = tree.with_name(f".new-{tree.name}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    descriptor = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with archive.open("rb") as stream:
            extract(stream, descriptor, Bounds(size))
    except (ArchiveError, OSError) as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise UnitsError(f"the archive: {error}") from error
    finally:
        os.close(descriptor)
    fresh.rename(tree)


def _started_at(pid: int) -> int:
    """Return when a process started, in the kernel's ticks since the boot; 0 for none."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def _end_left(left: list[int] | None) -> None:
    """End the group of a process that the last one of us left, if it is that process still."""
    if left and len(left) == 2 and left[1] and _started_at(left[0]) == left[1]:  # noqa: PLR2004
        _signal_group(left[0], signal.SIGKILL)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
