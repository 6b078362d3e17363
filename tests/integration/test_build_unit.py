"""A build as systemd starts it: a program of its own for each connection to a socket."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from tests.contract.test_building import EXAMPLES, Builder
from tests.support.wait import eventually

from rota.settings import Settings
from rota.store.builds import BuildState
from rota.store.database import Database

Started = list[asyncio.subprocess.Process]


@asynccontextmanager
async def accepting(path: Path) -> AsyncIterator[Started]:
    """Start what the unit starts for each connection, as `Accept=yes` does."""
    started: Started = []

    async def accept(listener: socket.socket) -> None:
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            connection.settimeout(None)
            with connection:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-m", "rota.builds.inside"),
                    stdin=connection.fileno(),
                    stdout=asyncio.subprocess.DEVNULL,
                    env={},
                    start_new_session=True,
                )
            started.append(process)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(0)
        task = asyncio.create_task(accept(listener))
        yield started
        task.cancel()
        await asyncio.wait({task})


async def test_it_builds_over_a_socket_and_ends_with_its_connection(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "build.sock"
    settings = replace(settings, builds=replace(settings.builds, socket=str(path)))
    builder = Builder(settings, database, tmp_path)
    refused = await builder.build(EXAMPLES / "static")
    assert refused.state is BuildState.FAILED
    assert "rota-build.socket" in refused.reason
    async with accepting(path) as started:
        done = await builder.build(EXAMPLES / "static")
        assert done.state is BuildState.DONE, done.reason
        source = builder.source({"Procfile": "web: x", "rota.toml": "[build]\ncommand = 'sleep 985'"})
        async with builder.working(time_limit=1):
            late = await builder.ended(await builder.order(source))
        assert "longer than 1 s" in late.reason

        async def gone() -> bool:
            return len(started) == 2 and all(process.returncode is not None for process in started)

        await eventually(gone)
