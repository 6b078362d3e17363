"""A hub whose address leads through a pooler that shares sessions between clients."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.support.pooler import Pooler
from tests.support.postgres import Server
from tests.support.settings import postgres_settings

from rota import wiring
from rota.errors import ConfigurationError
from rota.store.database import Database


@pytest.fixture(scope="module")
def pooler(postgres: Server) -> Iterator[Pooler]:
    started = Pooler.start(postgres)
    yield started
    started.destroy()


@pytest.fixture
async def hubs(tmp_path: Path, postgres: Server, pooler: Pooler) -> AsyncIterator[list[Database]]:
    """Give the databases of two hubs in two schemas, behind one pooler."""
    address = {"ROTA_DATABASE_URL": pooler.url(postgres), "ROTA_DATABASE_DIRECT_URL": postgres.url}
    opened = []
    for _ in range(2):
        settings = postgres_settings(tmp_path, postgres, postgres.new_schema(), **address)
        opened.append(wiring.make_database(settings))
        await opened[-1].open()
    yield opened
    for database in opened:
        await database.close()


async def test_alone_it_is_refused_because_locks_would_not_hold(
    tmp_path: Path, postgres: Server, pooler: Pooler
) -> None:
    settings = postgres_settings(
        tmp_path, postgres, postgres.new_schema(), ROTA_DATABASE_URL=pooler.url(postgres)
    )
    database = wiring.make_database(settings)
    with pytest.raises(ConfigurationError) as caught:
        await database.open()
    await database.close()
    assert str(caught.value) == (
        "database.direct_url: the address leads through a connection pooler that shares sessions "
        "between clients, where leader locks do not hold: give the database's own address"
    )


async def test_beside_a_direct_address_each_hub_stays_in_its_own_schema(hubs: list[Database]) -> None:
    async def one(number: int, name: str) -> None:
        await hubs[number].write(lambda tx: tx.run("backups.begin", name=name, cause="operator"))

    await asyncio.gather(*(one(number % 2, f"of-{number % 2}-{number}") for number in range(40)))
    for number in (0, 1):
        rows = await hubs[number].read(lambda tx: tx.all("backups.all"))
        assert len(rows) == 20
        assert {row["name"][:4] for row in rows} == {f"of-{number}"}


async def test_statements_asked_often_are_not_prepared_in_a_session_that_is_not_ours(
    hubs: list[Database],
) -> None:
    await asyncio.gather(*(hubs[number % 2].pulse() for number in range(60)))
    for hub in hubs:
        assert (await hub.pulse()).schema >= 1
