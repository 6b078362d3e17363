"""Builds on both kinds of database, in a real child: what comes out, what is said, what ends them."""

import asyncio
import io
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.postgres import free_port
from tests.support.raw import ask
from tests.support.sql import run
from tests.support.wait import eventually, wait_for

from rota.archive.extract import Bounds, extract
from rota.archive.pack import pack_source
from rota.artifacts import room
from rota.artifacts.measuring import measure
from rota.artifacts.store import ArtifactStore
from rota.builds import manifest
from rota.builds.building import KIND
from rota.coordination.bus.local import LocalBus
from rota.coordination.queue.job import NewJob
from rota.coordination.queue.queue import TableQueue
from rota.settings import Settings
from rota.store.apps import Apps
from rota.store.artifacts import Artifacts
from rota.store.builds import BuildOutput, BuildRow, Builds, BuildState
from rota.store.database import Database, Transaction
from rota.tasks.parts import Parts
from rota.tasks.queue import QueueWorker

EXAMPLES = Path(__file__).parents[2] / "examples"


class Builder:
    """A hub's part that builds."""

    def __init__(self, settings: Settings, database: Database, place: Path) -> None:
        self.settings, self.database, self.place = settings, database, place
        self.bus = LocalBus()
        self.queue = TableQueue(database, self.bus)
        self.store = ArtifactStore(settings.artifacts_directory)

    async def order(self, source: Path) -> int:
        """Pack a source into the store, and order its build; return the build's number."""
        archive = self.store.partial("ab" * 32).with_name("packed")
        with archive.open("wb") as file:
            pack_source(source, file)
        found = measure(archive)
        self.store.publish(archive, found.hash, found.chunks)

        async def work(tx: Transaction) -> int:
            await Apps.add(tx, "shop")
            await Artifacts.add(tx, found.hash, "", found.size, "source")
            build = await Builds.add(tx, "shop", found.hash, "ada")
            await self.queue.enqueue(tx, NewJob(kind=KIND, payload={"build": build}))
            return build

        return await self.database.write(work)

    @asynccontextmanager
    async def working(self, **builds: Any) -> AsyncIterator[None]:
        """Take jobs for the length of the block."""
        settings = replace(self.settings, builds=replace(self.settings.builds, **builds))
        parts = Parts(settings, self.database, self.bus, self.queue, Counter())
        stopping = asyncio.Event()
        running = asyncio.create_task(QueueWorker(parts)(stopping))
        try:
            yield
        finally:
            stopping.set()
            await running

    async def ended(self, build: int, within: float = 60.0) -> BuildRow:
        """Wait until a build has ended."""

        async def look() -> BuildRow | None:
            row = await Builds(self.database).find(build)
            return row if row is not None and row.state.ended else None

        found = await eventually(look, within)
        assert found is not None
        return found

    async def build(self, files: Mapping[str, str] | Path) -> BuildRow:
        """Build a source to its end."""
        source = files if isinstance(files, Path) else self.source(files)
        async with self.working():
            return await self.ended(await self.order(source))

    def source(self, files: Mapping[str, str]) -> Path:
        """Make a source of these files."""
        source = self.place / "source"
        for name, text in files.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text)
        return source

    async def said(self, build: int) -> str:
        """Return all that a build said."""
        return "".join(text for _, text in await BuildOutput(self.database).after(build, 0, 10_000))

    def unpacked(self, row: BuildRow) -> Path:
        """Unpack what a build made."""
        assert row.artifact is not None
        data = self.store.path(row.artifact).read_bytes()
        there = self.place / f"there-{row.id}"
        there.mkdir()
        directory = os.open(there, os.O_RDONLY)
        extract(io.BytesIO(data), directory, Bounds(len(data)))
        os.close(directory)
        return there


@pytest.fixture
def builder(settings: Settings, database: Database, tmp_path: Path) -> Builder:
    return Builder(settings, database, tmp_path)


class TestExamples:
    async def test_python_is_built_once_and_runs_from_anywhere(self, builder: Builder) -> None:
        row = await builder.build(EXAMPLES / "hello")
        assert row.state is BuildState.DONE, await builder.said(row.id)
        made = manifest.read(row.manifest)
        assert list(made.processes) == ["clock", "web"]
        assert made.environment["GREETING"] == "Hello"
        assert (builder.unpacked(row) / "app.py").exists()
        kept = await Artifacts(builder.database).find(row.artifact or "")
        assert kept is not None
        assert (kept.kind, len(kept.sha256)) == ("build", 64)
        assert "This is a python app" in await builder.said(row.id)

    async def test_the_same_source_gives_the_same_artifact(self, builder: Builder) -> None:
        first = await builder.build(EXAMPLES / "hello")
        second = await builder.build(EXAMPLES / "hello")
        assert first.artifact == second.artifact is not None

    async def test_static_files_are_served_and_nothing_else(self, builder: Builder) -> None:
        row = await builder.build(
            {"public/index.html": "<h1>x", "public/.secret": "s", "public/sub/a.txt": "a", "Procfile": ""}
            | {"Procfile": "web: python3 .rota/static_files.py public"}
        )
        assert row.state is BuildState.DONE, row.reason
        there = builder.unpacked(row)
        (there / "public" / "out").symlink_to("/etc")
        paths = ("/", "/sub/a.txt", "/.secret", "/sub/", "/out/passwd", "/../Procfile", "/%2e%2e/Procfile")
        found = await asyncio.to_thread(_served, there, paths)
        assert found == [200, 200, 404, 404, 404, 404, 404]


class TestFailures:
    @pytest.mark.parametrize(
        ("files", "reason"),
        [
            ({"Procfile": "nonsense", "requirements.txt": ""}, "Procfile line 1"),
            ({"a": "b"}, "cannot be seen"),
            (
                {"Procfile": "web: x", "rota.toml": "[build]\ncommand = 'false'"},
                "false failed with exit code 1",
            ),
            ({"Procfile": "web: x", "rota.toml": "[build]\ncommand = 'no-such'"}, "no-such cannot be run"),
            (
                {"Procfile": "web: x", "rota.toml": "[build]\ncommand = ['ln', '-s', '/etc', 'x']"},
                "leads out",
            ),
        ],
    )
    async def test_a_bad_source_is_told_why(
        self, builder: Builder, files: Mapping[str, str], reason: str
    ) -> None:
        row = await builder.build(files)
        assert (row.state, row.artifact) == (BuildState.FAILED, None)
        assert reason in row.reason

    async def test_it_sees_nothing_of_the_hub(
        self, builder: Builder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ROTA_DATABASE_PASSWORD", "sentinel")
        monkeypatch.setenv("PIP_INDEX_URL", "file:///index")
        command = "[build]\ncommand = ['sh', '-c', 'env; cat /proc/$PPID/environ; ls -a']"
        row = await builder.build({"Procfile": "web: x", "rota.toml": command})
        said = await builder.said(row.id)
        assert row.state is BuildState.DONE, row.reason
        assert "sentinel" not in said
        assert "PIP_INDEX_URL=file:///index" in said

    async def test_one_that_takes_too_long_is_ended_with_all_that_it_started(self, builder: Builder) -> None:
        command = "[build]\ncommand = ['sh', '-c', 'sleep 987 & echo begun; wait']"
        source = builder.source({"Procfile": "web: x", "rota.toml": command})
        async with builder.working(time_limit=2):
            row = await builder.ended(await builder.order(source))
        assert row.state is BuildState.FAILED
        assert "longer than 2 s" in row.reason
        assert "begun" in await builder.said(row.id)
        assert _gone("sleep\x00987")

    async def test_a_cancelled_one_ends_and_stays_cancelled(self, builder: Builder) -> None:
        source = builder.source({"Procfile": "web: x", "rota.toml": "[build]\ncommand = 'sleep 986'"})
        async with builder.working():
            build = await builder.order(source)

            async def begun() -> bool:
                return "sleep 986" in await builder.said(build)

            await eventually(begun, 20)
            await builder.database.write(lambda tx: Builds.end(tx, build, BuildState.CANCELLED, "by ada"))

            async def settled() -> bool:
                return run(builder.settings, "SELECT count(*) FROM work_queue") == [(0,)]

            await eventually(settled, 20)
        row = await builder.ended(build)
        assert (row.state, row.reason) == (BuildState.CANCELLED, "by ada")
        assert _gone("sleep\x00986")

    async def test_nothing_is_built_that_will_not_fit(
        self, builder: Builder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(room, "SPARE", 1 << 60)
        row = await builder.build(EXAMPLES / "static")
        assert row.state is BuildState.FAILED
        assert "no room" in row.reason

    async def test_a_flood_of_output_is_cut_in_the_middle(
        self, builder: Builder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("rota.builds.output.MOST", 10_000)
        monkeypatch.setattr("rota.builds.output.TAIL", 2000)
        command = "[build]\ncommand = ['sh', '-c', 'seq 1 100000']"
        row = await builder.build({"Procfile": "web: x", "rota.toml": command})
        said = await builder.said(row.id)
        assert row.state is BuildState.DONE
        assert "left out here" in said
        assert "\n99999\n100000\n" in said
        assert len(said) < 13_000


class TestMirrors:
    async def test_an_artifact_is_copied_at_once_and_later_where_that_fails(
        self, builder: Builder, tmp_path: Path
    ) -> None:
        mirrors = (str(tmp_path / "one"), str(tmp_path / "two"))
        (tmp_path / "one").mkdir()
        artifacts = replace(builder.settings.artifacts, mirrors=mirrors)
        builder.settings = replace(builder.settings, artifacts=artifacts)
        row = await builder.build(EXAMPLES / "static")
        assert [path.name for path in (tmp_path / "one").iterdir()] == [row.artifact]
        queued = run(builder.settings, "SELECT kind, dedupe_key FROM work_queue")
        assert queued == [("mirror.refresh", "shop")]
        (tmp_path / "two").mkdir()
        run(builder.settings, "UPDATE work_queue SET run_after = enqueued_at")
        async with builder.working():

            async def copied() -> bool:
                return [path.name for path in (tmp_path / "two").iterdir()] == [row.artifact]

            await eventually(copied, 20)


def _served(there: Path, paths: tuple[str, ...]) -> list[int]:
    """Serve what was built; return the status of the answer for each path."""
    port = free_port()
    argv = [sys.executable, ".rota/static_files.py", "public"]
    with subprocess.Popen(argv, cwd=there, env={"PORT": str(port)}, stderr=subprocess.DEVNULL) as served:
        try:
            return wait_for(lambda: _statuses(port, paths))
        finally:
            served.kill()


def _statuses(port: int, paths: tuple[str, ...]) -> list[int]:
    try:
        return [ask(port, "GET", path).status for path in paths]
    except ConnectionRefusedError:
        return []


def _gone(argv: str) -> bool:
    """Tell whether no process with these words is there any more, after a moment."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        alive = [path for path in Path("/proc").glob("[0-9]*/cmdline") if argv in _text(path)]
        if not alive:
            return True
        time.sleep(0.05)
    return False


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
