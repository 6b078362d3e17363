"""A source is pushed to a hub that serves: by what is missing, resumed, and never half of it."""

import asyncio
import itertools
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import aiohttp
import pytest
from tests.support import access
from tests.support.postgres import free_port
from tests.support.process import Hub
from tests.support.raw import ask
from tests.support.server import Simulated

from rota.access.scopes import Scope
from rota.artifacts.fetching import fetch
from rota.artifacts.measuring import Measured, measure
from rota.artifacts.pushing import push
from rota.artifacts.store import ArtifactStore
from rota.artifacts.transfer import Line, RefusedError, TransferError
from rota.wire.keys import SigningKey
from rota.wire.request import EMPTY, HEADER, RequestStatement, header

MIB = 1 << 20
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {"ROTA_SERVER_DATA": str(tmp_path_factory.mktemp("hub") / "data")}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, environ: dict[str, str]) -> Iterator[Hub]:
    process = Hub.start(tmp_path_factory.mktemp("log") / "log", environ, port=free_port()).wait()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def store(environ: dict[str, str]) -> ArtifactStore:
    return ArtifactStore(Path(environ["ROTA_SERVER_DATA"]) / "artifacts")


@pytest.fixture
def line(hub: Hub, environ: dict[str, str]) -> Iterator[Line]:
    token = access.token(environ, Scope.APPS_WRITE)
    with Line(f"http://127.0.0.1:{hub.port}", lambda *_: {"Authorization": f"Bearer {token}"}) as opened:
        yield opened


def an_archive(place: Path, size: int, seed: int, *, change: bool = False) -> tuple[Path, Measured]:
    data = random.Random(seed).randbytes(size)  # noqa: S311 - the same each time
    if change:
        data = data[: size // 2] + b"one changed line\n" + data[size // 2 :]
    path = place / f"{seed}-{change}"
    path.write_bytes(data)
    return path, measure(path)


class Fetcher:
    """An enrolled server that fetches."""

    def __init__(self, hub: Hub, server: Simulated) -> None:
        self.hub, self.server = hub, server
        self.url = f"http://127.0.0.1:{hub.port}"

    def sign(self, method: str, target: str) -> dict[str, str]:
        """Return the header of a request."""
        statement = RequestStatement(
            audience=self.server.hub,
            sender=self.server.name,
            method=method,  # type: ignore[arg-type]
            target=target,
            body=EMPTY,
            issued_at=1,
        )
        return {HEADER: header(statement, self.server.key)}


@pytest.fixture
async def fetcher(hub: Hub, environ: Mapping[str, str]) -> Fetcher:
    """Enrol a server."""
    assert hub.port is not None
    bearer = await asyncio.to_thread(access.bearer, environ, Scope.ADMIN)
    number = next(_numbers)
    name, address = f"s{number}", f"10.79.0.{number}"
    wanted = {"name": name, "address": address}
    invited = await asyncio.to_thread(access.send_json, hub.port, "POST", "/api/servers", wanted, bearer)
    server = Simulated(name, address)
    invitation = {**json.loads(invited.body), "url": f"http://127.0.0.1:{hub.port}"}
    async with aiohttp.ClientSession() as client:
        status, body = await server.enrol(client, invitation)
    assert status == 200, body
    return Fetcher(hub, server)


def told(_: int, __: int) -> None:
    pass


class TestPush:
    def test_a_new_one_travels_once_and_a_change_of_it_hardly(
        self, line: Line, store: ArtifactStore, tmp_path: Path
    ) -> None:
        seen: list[tuple[int, int]] = []
        path, measured = an_archive(tmp_path, 20 * MIB, 1)
        assert push(line, "shop", path, measured, lambda *now: seen.append(now)) == 20 * MIB
        assert seen[-1] == (20 * MIB, 20 * MIB)
        assert store.path(measured.hash).read_bytes() == path.read_bytes()
        assert push(line, "shop", path, measured, told) == 0
        path, measured = an_archive(tmp_path, 20 * MIB, 1, change=True)
        assert push(line, "blog", path, measured, told) <= MIB
        assert store.is_whole(measured.hash)

    def test_it_goes_on_where_it_was_cut_off(self, line: Line, store: ArtifactStore, tmp_path: Path) -> None:
        path, measured = an_archive(tmp_path, 12 * MIB, 2)

        def cut(sent: int, _: int) -> None:
            if sent > 6 * MIB:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            push(line, "shop", path, measured, cut)
        line.close()
        assert not store.holds(measured.hash)
        assert push(line, "shop", path, measured, told) <= 8 * MIB
        assert store.is_whole(measured.hash)

    def test_what_is_not_what_its_name_says_is_refused(
        self, line: Line, store: ArtifactStore, tmp_path: Path
    ) -> None:
        path, measured = an_archive(tmp_path, 2 * MIB, 3)
        path.write_bytes(path.read_bytes()[:-1] + b"!")
        with pytest.raises((RefusedError, TransferError)):
            push(line, "shop", path, measured, told)
        assert not store.holds(measured.hash)

    def test_names_are_names(self, line: Line, tmp_path: Path) -> None:
        path, measured = an_archive(tmp_path, 1, 4)
        for app in ("Shop", "..", "a" * 24):
            with pytest.raises(RefusedError, match="no app's name"):
                push(line, app, path, measured, told)


class TestFetch:
    async def test_a_server_gets_what_was_pushed(self, line: Line, fetcher: Fetcher, tmp_path: Path) -> None:
        store = ArtifactStore(tmp_path / "there")
        for change in (False, True):
            path, measured = an_archive(tmp_path, 10 * MIB, 7, change=change)
            await asyncio.to_thread(push, line, "shop", path, measured, told)
            arguments = store, fetcher.url, fetcher.sign, measured.hash, measured.size
            found = await asyncio.to_thread(fetch, *arguments)
            assert found.read_bytes() == path.read_bytes()
        with pytest.raises(TransferError, match="404"):
            await asyncio.to_thread(fetch, store, fetcher.url, fetcher.sign, "ab" * 32, 7)

    async def test_another_key_or_another_request_gets_nothing(
        self, fetcher: Fetcher, store: ArtifactStore
    ) -> None:
        assert fetcher.hub.port is not None
        name = next(store.all())
        right = fetcher.sign("GET", f"/artifacts/{name}")
        other = fetcher.sign("GET", f"/artifacts/{name}/chunks")
        fetcher.server.key = SigningKey.new()
        stranger = fetcher.sign("GET", f"/artifacts/{name}")
        for signed, expected in ((right, 200), (other, 401), (stranger, 401)):
            lines = [f"{key}: {value}" for key, value in signed.items()]
            answer = await asyncio.to_thread(ask, fetcher.hub.port, "GET", f"/artifacts/{name}", *lines)
            assert answer.status == expected


def test_nobody_gets_an_artifact_without_a_servers_signature(
    hub: Hub, environ: Mapping[str, str], store: ArtifactStore
) -> None:
    assert hub.port is not None
    header = access.bearer(environ, Scope.ADMIN)
    for name in [*store.all(), "ab" * 32]:
        for path in (f"/artifacts/{name}", f"/artifacts/{name}/chunks"):
            assert ask(hub.port, "GET", path, header).status == 401
