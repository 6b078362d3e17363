"""The reader of output on real FIFOs: killed and restarted, flooded, with the primary away."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.support.wait import eventually

from rota.logs.parcel import Parcel
from rota.logs.reader import Reader
from rota.logs.shipping import Shipping

if TYPE_CHECKING:
    from rota.logs.entry import Entry


class Primary:
    """Takes parcels, unless it is away."""

    def __init__(self) -> None:
        self.away = False
        self.entries: dict[str, list[Entry]] = {}

    async def take(self, body: bytes) -> int:
        if self.away:
            return 503
        for part in msgspec.json.decode(body, type=Parcel).parts:
            kept = self.entries.setdefault(part.copy, [])
            last = kept[-1].number if kept else 0
            kept += [entry for entry in part.entries if entry.number > last]
        return 200

    def texts(self, copy: str) -> list[str]:
        return [entry.text for entry in self.entries.get(copy, [])]


@pytest.fixture
def primary() -> Primary:
    return Primary()


class Writer:
    """An instance's end of a FIFO, which systemd would hold open as well."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        os.mkfifo(path)
        self._held = os.open(path, os.O_RDWR)
        self._file = os.open(path, os.O_WRONLY)

    def write(self, data: bytes) -> None:
        os.write(self._file, data)

    async def flood(self, line: bytes, count: int) -> None:
        def work() -> None:
            for _ in range(count):
                os.write(self._file, line)

        await asyncio.to_thread(work)


@asynccontextmanager
async def reading(tmp_path: Path, primary: Primary) -> AsyncIterator[Reader]:
    reader = Reader(tmp_path / "fifos", tmp_path / "spools")
    tasks = [asyncio.create_task(reader.run()), asyncio.create_task(Shipping(reader, primary.take).run())]
    try:
        yield reader
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


COPY = "shop.web.1@3"


async def arrived(primary: Primary, copy: str, texts: list[str]) -> None:
    async def there() -> bool:
        return primary.texts(copy) == texts

    await eventually(there)


async def test_lines_arrive_and_a_restart_of_the_reader_breaks_no_pipe(
    tmp_path: Path, primary: Primary
) -> None:
    writer = Writer(tmp_path / "fifos" / COPY)
    writer.write(b"before anybody reads\n")
    async with reading(tmp_path, primary):
        writer.write(b"one\ntwo\nhal")
        await arrived(primary, COPY, ["before anybody reads", "one", "two"])
    writer.write(b"while nobody reads\n")
    async with reading(tmp_path, primary):
        await arrived(primary, COPY, ["before anybody reads", "one", "two", "hal", "while nobody reads"])
    assert all(entry.dropped == 0 for entry in primary.entries[COPY])


async def test_what_was_written_while_the_primary_was_away_arrives_once_it_is_back(
    tmp_path: Path, primary: Primary
) -> None:
    writer = Writer(tmp_path / "fifos" / COPY)
    primary.away = True
    async with reading(tmp_path, primary) as reader:
        lines = [f"line {n}" for n in range(2000)]
        for line in lines:
            writer.write(line.encode() + b"\n")
            await asyncio.sleep(0)

        async def read() -> bool:
            spool = reader.spools().get(COPY)
            return spool is not None and not spool.empty

        await eventually(read)
        primary.away = False
        await arrived(primary, COPY, lines)


async def test_a_flood_leaves_memory_bounded_and_the_neighbours_lines_whole(
    tmp_path: Path, primary: Primary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.logs.spool.BOUND", 2_000_000)
    noisy, quiet = Writer(tmp_path / "fifos" / COPY), Writer(tmp_path / "fifos" / "blog.web.1@1")
    primary.away = True
    count = 100_000
    async with reading(tmp_path, primary) as reader:
        flood = asyncio.create_task(noisy.flood(b"x" * 400 + b"\n", count))
        for n in range(50):
            quiet.write(f"quiet {n}\n".encode())
            await asyncio.sleep(0.01)
        await flood
        reader.sources[COPY].spool._bound = 2_000_000

        async def read_all() -> bool:
            return not reader.sources[COPY].read()

        await eventually(read_all)
        assert sum(path.stat().st_size for path in (tmp_path / "spools" / COPY).iterdir()) < 70_000_000
        primary.away = False
        await arrived(primary, "blog.web.1@1", [f"quiet {n}" for n in range(50)])
        noisy.write(b"the end\n")

        async def ended() -> bool:
            return primary.texts(COPY)[-1:] == ["the end"]

        await eventually(ended, within=60)
    entries = primary.entries[COPY]
    assert len(entries) + sum(entry.dropped for entry in entries) == count + 1


async def test_the_spool_of_a_copy_that_is_gone_is_deleted_once_all_has_arrived(
    tmp_path: Path, primary: Primary
) -> None:
    writer = Writer(tmp_path / "fifos" / COPY)
    async with reading(tmp_path, primary):
        writer.write(b"last words\n")
        await arrived(primary, COPY, ["last words"])
        (tmp_path / "fifos" / COPY).unlink()

        async def gone() -> bool:
            return not (tmp_path / "spools" / COPY).exists()

        await eventually(gone)
