"""Fixtures that every part of the suite may use."""

import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.support.postgres import Server
from tests.support.process import Hub
from tests.support.settings import postgres_settings, sqlite_settings

from rota import wiring
from rota.settings import Settings
from rota.store.database import Database

# What whoever started the tests ignores, as nohup does, their programs would ignore too.
for _number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Give a PostgreSQL server of this run's own."""
    server = Server.create()
    yield server
    server.destroy()


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Give the settings of a hub on each kind of database."""
    if request.param == "sqlite":
        return sqlite_settings(tmp_path)
    server: Server = request.getfixturevalue("postgres")
    return postgres_settings(tmp_path, server, server.new_schema())


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Database]:
    """Give an open database of each kind."""
    opened = wiring.make_database(settings)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def hubs() -> Iterator[list[Hub]]:
    """Give a list of processes that are ended with the test."""
    started: list[Hub] = []
    yield started
    for hub in started:
        hub.kill()


@pytest.fixture
def port(hub: Hub) -> int:
    """Give the port of the one process that a module asks."""
    assert hub.port is not None
    return hub.port
