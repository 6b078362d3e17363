"""Reads the FIFOs that systemd holds for a server's instances, each as fairly as the others.

The FIFO of a copy stays while its unit is placed, whoever reads it: neither a
restart nor a kill of this reader breaks a pipe. It is opened for writing too,
so that it never seems to end while nobody writes.
"""

import asyncio
import contextlib
import os
import re
import stat
from pathlib import Path

import structlog

from rota.logs.entry import Cutter
from rota.logs.spool import Spool

PIECE = 65_536  # bytes taken from one FIFO before the next has its turn
LOOK = 0.25  # seconds between two looks for FIFOs that are new or gone
NAME = re.compile(r"[a-z0-9._-]{1,80}@[0-9.]{1,24}")

log = structlog.get_logger("rota.logs")


class Source:
    """One FIFO and its spool."""

    def __init__(self, path: Path, spool: Spool) -> None:
        """Open it. Raises OSError."""
        self.copy = path.name
        self.spool = spool
        self._cutter = Cutter()
        self._fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def start(self) -> None:
        """Read whenever there is something."""
        asyncio.get_running_loop().add_reader(self._fifo, self.read)

    def read(self) -> bool:
        """Take one piece; return whether there was one."""
        try:
            data = os.read(self._fifo, PIECE)
        except BlockingIOError:
            return False
        self.spool.put(self._cutter.feed(data))
        return bool(data)

    def close(self) -> None:
        """Take what is left, without waiting for more, and close."""
        with contextlib.suppress(ValueError):
            asyncio.get_running_loop().remove_reader(self._fifo)
        for _ in range(64):
            if not self.read():
                break
        self.spool.put(self._cutter.end())
        os.close(self._fifo)


class Reader:
    """Every FIFO of a directory."""

    def __init__(self, fifos: Path, spools: Path) -> None:
        """Read what is in `fifos` into a spool for each in `spools`."""
        self._fifos = fifos
        self._spools = spools
        self.sources: dict[str, Source] = {}
        self.left: dict[str, Spool] = {}  # of copies that are gone, until the primary has everything

    async def run(self) -> None:
        """Look for what is new and what is gone until cancelled; then end well."""
        for path in sorted(self._spools.glob("*@*")) if self._spools.is_dir() else ():
            if NAME.fullmatch(path.name):
                self.left[path.name] = Spool(path)
        try:
            while True:
                self.look()
                await asyncio.sleep(LOOK)
        finally:
            for source in self.sources.values():
                source.close()
                source.spool.close()
            for spool in self.left.values():
                spool.close()

    def look(self) -> None:
        """Begin with FIFOs that are new, and leave those that are gone."""
        there = {path.name: path for path in self._listed()}
        for name in sorted(self.sources.keys() - there.keys()):
            source = self.sources.pop(name)
            source.close()
            self.left[name] = source.spool
        for name in sorted(there.keys() - self.sources.keys()):
            spool = self.left.pop(name, None) or Spool(self._spools / name)
            try:
                self.sources[name] = Source(there[name], spool)
            except OSError as error:
                log.warning("output cannot be read", copy=name, reason=str(error))
                self.left[name] = spool
                continue
            self.sources[name].start()

    def spools(self) -> dict[str, Spool]:
        """Return every spool by the name of its copy."""
        return {**self.left, **{name: source.spool for name, source in self.sources.items()}}

    def forget_left(self) -> None:
        """Delete the spools of copies that are gone and whose output the primary has."""
        for name in [name for name, spool in self.left.items() if spool.empty]:
            self.left.pop(name).remove()

    def _listed(self) -> list[Path]:
        try:
            paths = sorted(self._fifos.iterdir())
        except FileNotFoundError:
            return []
        return [path for path in paths if NAME.fullmatch(path.name) and stat.S_ISFIFO(_mode(path))]


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0
