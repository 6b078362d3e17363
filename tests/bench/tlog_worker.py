"""One process of the log's benchmark: producers that each wait for the answer to their own entry.

    python -m tests.bench.tlog_worker VARIANT DIRECTORY PRODUCERS SECONDS

Says `ready`, begins when a line comes, and prints one line of JSON: the entries
answered and the latencies in milliseconds.
"""

import asyncio
import fcntl
import json
import os
import secrets
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rota.tlog.batches import Batches, Write
from rota.tlog.disk import LocalDisk
from rota.tlog.records import Logged, Records
from rota.tlog.tree import Tree

SIZE = 600  # bytes of an entry
MOST = 256  # entries of one batch of the reference, as its own default is


class FilePerTile:
    """The reference: under one lock, each tile and bundle is a file of its own: temporary, synced, renamed.

    This is how logs that keep tiles as their only store append; the state file is the commit point.
    """

    def __init__(self, root: Path) -> None:
        """Keep tiles below this directory."""
        self._root = root
        root.mkdir(exist_ok=True)

    def append(self, entries: Sequence[bytes]) -> list[Logged]:
        """Append one batch, durably."""
        found = []
        for at in range(0, len(entries), MOST):
            found += self._append(entries[at : at + MOST])
        return found

    def _append(self, entries: Sequence[bytes]) -> list[Logged]:
        lock = os.open(self._root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = self._root / "state"
            size = int(state.read_text()) if state.exists() else 0
            tree = Tree.load(size, lambda tile: (self._root / tile.path).read_bytes())
            for entry in entries:
                for tile, data in tree.add(entry):
                    self._put(self._root / tile.path, data)
            for tile, data in tree.partial():
                self._put(self._root / tile.path, data)
            self._put(state, str(tree.size).encode())
        finally:
            os.close(lock)
        return [Logged(size + at, b"") for at in range(len(entries))]

    def _put(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            draft = path.parent / f".{secrets.token_hex(8)}"
            with draft.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.rename(path)
            os.fsync(directory)
        finally:
            os.close(directory)


def writer(variant: str, directory: Path) -> Write:
    """Return what writes a batch, in a thread of its own."""
    thread = ThreadPoolExecutor(1)
    append = (
        FilePerTile(directory).append
        if variant == "tiles"
        else Records(LocalDisk(directory), lambda: 0).append
    )

    async def write(entries: Sequence[bytes]) -> list[Logged]:
        return await asyncio.get_running_loop().run_in_executor(thread, append, entries)

    return write


async def produce(batches: Batches, until: float, latencies: list[float]) -> None:
    """Append one entry after another."""
    while time.monotonic() < until:
        began = time.monotonic()
        await batches.add(os.urandom(SIZE))
        latencies.append((time.monotonic() - began) * 1000)


async def run(variant: str, directory: Path, producers: int, seconds: float) -> list[float]:
    """Return the latencies of all that was answered."""
    batches = Batches(writer(variant, directory))
    until = time.monotonic() + seconds
    latencies: list[float] = []
    await asyncio.gather(*(produce(batches, until, latencies) for _ in range(producers)))
    await batches.close()
    return latencies


def main() -> int:
    """Wait for the start, run, and say what came of it."""
    variant, directory, producers, seconds = (
        sys.argv[1],
        Path(sys.argv[2]),
        int(sys.argv[3]),
        float(sys.argv[4]),
    )
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(asyncio.run(run(variant, directory, producers, seconds))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
