"""One suite for both drivers of `Units`: child processes here, systemd through rootd on a host of the lab."""

import asyncio
import os
import random
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import aiohttp
import pytest
from tests.lab.labctl import SWITCH, Labctl
from tests.lab.server import Server
from tests.support.agent_hub import SERVER, packed
from tests.support.wait import eventually

from rota.agent.children import ChildUnits
from rota.agent.systemd import SystemdUnits
from rota.agent.units import Seen, Unit, Units, UnitsError

COMMAND = "/usr/bin/python3 -u server.py"
BASE = {"PATH": b"/usr/bin:/bin"}
COPY = "shop.web.1@1"


@dataclass
class Driver:
    """A driver, and how its instances are reached."""

    units: Units
    host: str
    port: int
    ask: Callable[[str], Awaitable[bytes]]
    archive: Path
    size: int
    sha256: str

    def unit(self, copy: str = COPY, **more: int) -> Unit:
        return Unit(**{"copy": copy, "sha256": self.sha256, "port": self.port, "grace": 5, **more})  # type: ignore[arg-type]

    async def ready(self, copy: str = COPY) -> None:
        assert await self.units.unpack(self.sha256, self.size, self.archive)
        await self.units.place(self.unit(copy))

    async def start(self, copy: str = COPY, command: str = COMMAND, **values: bytes) -> None:
        own = {"HOST": self.host.encode(), "PORT": str(self.port).encode()}
        await self.units.start(copy, command, {**BASE, **values, **own})

    async def up(self, path: str = "/") -> bytes:
        async def try_() -> bytes:
            with suppress(OSError, aiohttp.ClientError, TimeoutError):
                return await self.ask(path)
            return b""

        return await eventually(try_, within=30)

    async def seen(self, copy: str = COPY) -> Seen | None:
        return (await self.units.seen()).get(copy)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    lab = Labctl(f"t{os.getpid()}-units")
    lab("up", SWITCH)
    try:
        yield Server(lab, "s1", "10.78.0.11").make(tmp_path_factory.mktemp("shared"))
    finally:
        lab.attempt("down")


@pytest.fixture(params=["children", pytest.param("systemd", marks=pytest.mark.lab)])
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Driver]:
    archive = tmp_path / "archive"
    archive.write_bytes(packed({"server.py": SERVER, "sub/deep": "x"}))
    about = (archive, archive.stat().st_size, sha256(archive.read_bytes()).hexdigest())
    if request.param == "children":
        port = 20000 + os.getpid() % 20000
        units = ChildUnits(tmp_path / "units")

        async def here(path: str) -> bytes:
            async with (
                aiohttp.ClientSession() as client,
                client.get(f"http://127.0.0.1:{port}{path}") as answer,
            ):
                return await answer.read()

        yield Driver(units, "127.0.0.1", port, here, *about)
        await units.close()
        return
    host: Server = request.getfixturevalue("server")
    address, port = host.address, 20007

    async def there(path: str) -> bytes:
        argv = host.lab.argv("net", "--", "curl", "-sS", "--max-time", "3", f"http://{address}:{port}{path}")
        process = await asyncio.create_subprocess_exec(*argv, stdout=-1, stderr=-1)
        output, errors = await process.communicate()
        if process.returncode:
            raise OSError(errors.decode())
        return output

    units_there = SystemdUnits(host.socket, host.within)
    yield Driver(units_there, address, port, there, *about)
    for name in await units_there.seen():
        await units_there.stop(name)
    with suppress(UnitsError):
        await units_there.stop(COPY)
    await units_there.forget(about[2])


async def test_an_artifact_is_unpacked_once_and_never_what_is_something_else(driver: Driver) -> None:
    assert not await driver.units.unpack(driver.sha256, driver.size, None)
    with pytest.raises(UnitsError, match="not unpacked"):
        await driver.units.place(driver.unit())
    assert await driver.units.unpack(driver.sha256, driver.size, driver.archive)
    assert await driver.units.unpack(driver.sha256, driver.size, None)
    driver.archive.write_bytes(b"PK" + bytes(5000))
    other = sha256(driver.archive.read_bytes()).hexdigest()
    with pytest.raises(UnitsError, match="the archive: it is no tar archive"):
        await driver.units.unpack(other, 5002, driver.archive)
    assert not await driver.units.unpack(other, 5002, None)


async def test_a_copy_lives_from_start_to_stop_and_is_not_started_twice(driver: Driver) -> None:
    with pytest.raises(UnitsError, match="not placed"):
        await driver.start()
    await driver.ready()
    await driver.ready()
    with pytest.raises(UnitsError, match="configuration"):
        await driver.units.start(COPY, "", None)
    await driver.start()
    pid = await driver.up()
    await driver.start()
    assert (await driver.up(), (await driver.seen() or Seen("failed")).state) == (pid, "running")
    with pytest.raises(UnitsError, match="placed otherwise"):
        await driver.units.place(driver.unit(port=driver.port + 1))
    with pytest.raises(UnitsError, match="uses this artifact"):
        await driver.units.forget(driver.sha256)
    assert "listening" in await driver.units.last_lines(COPY)

    for _ in range(2):
        await driver.units.stop(COPY)
    assert await driver.seen() is None
    with pytest.raises(OSError, match=r"7|onnect"):
        await driver.ask("/")
    await driver.ready()
    with pytest.raises(UnitsError, match="configuration"):
        await driver.units.start(COPY, "", None)


async def test_any_bytes_without_nul_arrive_unchanged(driver: Driver) -> None:
    chosen = random.Random(5)  # noqa: S311 - the same every time
    values = {
        f"V{number}": bytes(chosen.choices(range(1, 256), k=length))
        for number, length in enumerate([0, 1, 2, 7, 100, 1000, 65_536, *range(3, 60)])
    }
    values |= {
        "QUOTES": b"'\"\\`$(id) ${PATH} %i %%n",
        "LINES": b"a\nb\r\nc\t\n\n",
        "SPACES": b"  x  ",
        "CODES": bytes(range(1, 256)),
    }
    await driver.ready()
    await driver.start(COPY, COMMAND, **values)
    found = (await driver.up("/environ")).split(b"\0")
    variables = dict(each.split(b"=", 1) for each in found if each)
    assert {name: variables.get(name.encode()) for name in values} == values
    given = {name.decode() for name in variables} - values.keys()
    assert given == {"HOST", "PATH", "PORT"}


async def test_what_ends_by_itself_starts_again(driver: Driver) -> None:
    await driver.ready()
    await driver.start()
    pid = await driver.up()
    with suppress(OSError, aiohttp.ClientError):
        await driver.ask("/exit")

    async def again() -> bool:
        seen = await driver.seen()
        return seen is not None and seen.restarts == 1 and seen.state == "running"

    await eventually(again, within=20)
    assert await driver.up() != pid


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("exit 3", 3), ("kill -9 $$", 137)])
async def test_a_run_happens_once_and_leaves_its_exit_code(driver: Driver, command: str, code: int) -> None:
    run = f"{COPY}.7"
    await driver.ready(run)
    await driver.start(run, f"sh -c {shlex.quote(command)}")

    async def ended() -> Seen | None:
        seen = await driver.seen(run)
        return seen if seen is not None and seen.state == "ended" else None

    seen = await eventually(ended)
    assert seen is not None
    assert (seen.exit_code, seen.restarts) == (code, 0)
    await driver.units.stop(run)


async def test_what_does_not_end_when_asked_is_made_to(driver: Driver) -> None:
    await driver.units.unpack(driver.sha256, driver.size, driver.archive)
    await driver.units.place(driver.unit(grace=1))
    await driver.start(command="sh -c 'trap \"\" TERM; echo ready; while :; do sleep 1; done'")

    async def ready() -> bool:
        return "ready" in await driver.units.last_lines(COPY)

    await eventually(ready)
    await driver.units.stop(COPY)
    assert await driver.seen() is None
