"""A source is pushed to a hub that serves: by what is missing, resumed, and never half of it."""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.support import access
from tests.support.postgres import free_port
from tests.support.process import Hub
from tests.support.raw import ask

from rota.access.scopes import Scope
from rota.artifacts.measuring import Measured, measure
from rota.artifacts.pushing import push
from rota.artifacts.store import ArtifactStore
from rota.artifacts.transfer import Line, RefusedError, TransferError

MIB = 1 << 20


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


def test_nobody_gets_an_artifact_without_a_servers_signature(
    hub: Hub, environ: Mapping[str, str], store: ArtifactStore
) -> None:
    assert hub.port is not None
    header = access.bearer(environ, Scope.ADMIN)
    for name in [*store.all(), "ab" * 32]:
        for path in (f"/artifacts/{name}", f"/artifacts/{name}/chunks"):
            assert ask(hub.port, "GET", path, header).status == 401
