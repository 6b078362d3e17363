"""The `Database` seam, on SQLite and on PostgreSQL."""

import asyncio
from typing import LiteralString

import pytest
from tests.support.postgres import Server

from rota import wiring
from rota.coordination.epoch import Fence
from rota.coordination.local import raise_epochs
from rota.errors import FencedError, UnreachableError
from rota.settings import Settings
from rota.store import postgres as postgresql
from rota.store.database import Database, Transaction
from rota.store.migrations import program_schema


async def lead(database: Database, task: str, holder: str = "here:1") -> Fence:
    return (await database.write(lambda tx: raise_epochs(tx, [task], holder)))[0]


async def test_an_opened_database_says_what_it_is(database: Database) -> None:
    pulse = await database.pulse()
    assert pulse.schema == program_schema()
    assert pulse.tolerates <= pulse.schema


async def test_what_was_written_is_read_back(database: Database) -> None:
    await database.write(lambda tx: tx.run("backups.begin", name="one", cause="operator"))
    row = (await database.read(lambda tx: tx.all("backups.all")))[0]
    assert (row["name"], row["state"], row["finished_at"]) == ("one", "running", None)


async def test_a_unit_that_fails_changes_nothing(database: Database) -> None:
    async def half(tx: Transaction) -> None:
        await tx.run("backups.begin", name="half", cause="operator")
        raise KeyError("stop")

    with pytest.raises(KeyError):
        await database.write(half)
    assert await database.read(lambda tx: tx.all("backups.all")) == []


async def test_opening_twice_migrates_once(settings: Settings, database: Database) -> None:
    again = wiring.make_database(settings)
    await again.open()
    await again.close()
    assert (await database.pulse()).schema == program_schema()


async def test_two_processes_that_open_at_once_migrate_once(settings: Settings) -> None:
    both = [wiring.make_database(settings), wiring.make_database(settings)]
    await asyncio.gather(*(one.open() for one in both))
    assert [(await one.pulse()).schema for one in both] == [program_schema()] * 2
    for one in both:
        await one.close()


async def test_an_epoch_rises_with_every_gain(database: Database) -> None:
    first, second = await lead(database, "t"), await lead(database, "t", "there:2")
    assert (first.epoch, second.epoch) == (1, 2)
    assert first.generation == second.generation == 1


async def test_a_write_under_the_newest_epoch_is_taken(database: Database) -> None:
    fence = await lead(database, "t")
    assert await database.write(lambda tx: tx.run("backups.begin", name="b", cause="schedule"), fence) == 1


async def test_a_write_under_an_older_epoch_is_refused_and_changes_nothing(database: Database) -> None:
    old = await lead(database, "t")
    await lead(database, "t", "there:2")
    with pytest.raises(FencedError, match="epoch 1 no longer leads"):
        await database.write(lambda tx: tx.run("backups.begin", name="b", cause="schedule"), old)
    assert await database.read(lambda tx: tx.all("backups.all")) == []


async def test_an_epoch_of_an_earlier_generation_is_refused(database: Database) -> None:
    fence = await lead(database, "t")
    with pytest.raises(FencedError):
        await database.write(lambda tx: tx.run("history.prune", days=1), fence._replace(generation=0))


async def test_no_successor_rises_between_the_check_and_the_commit(database: Database) -> None:
    fence = await lead(database, "t")
    order: list[str] = []

    async def work(tx: Transaction) -> None:
        await tx.run("backups.begin", name="b", cause="schedule")
        order.append("wrote")

    async def succeed() -> None:
        await lead(database, "t", "there:2")
        order.append("rose")

    await asyncio.gather(database.write(work, fence), succeed(), return_exceptions=True)
    rows = await database.read(lambda tx: tx.all("backups.all"))
    # Either the write came first, or it was refused: never a write after the rise.
    assert (order == ["wrote", "rose"] and len(rows) == 1) or (order == ["rose"] and not rows)


async def test_exclusive_units_of_one_name_never_overlap(database: Database) -> None:
    inside = 0
    most = 0

    async def work(tx: Transaction) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await tx.all("leaders.all")
        inside -= 1

    await asyncio.gather(*(database.exclusive("autoland:7", work) for _ in range(20)))
    assert (inside, most) == (0, 1)


async def test_a_database_that_was_not_opened_says_so(settings: Settings) -> None:
    closed = wiring.make_database(settings)
    with pytest.raises(UnreachableError):
        await closed.pulse()
    await closed.close()


@pytest.mark.parametrize("settings", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("REVOKE ALL ON schema_migrations FROM rota", "permission denied"),
        ("DROP TABLE schema_migrations", "does not exist"),
        ("DELETE FROM schema_migrations", "holds no schema yet"),
    ],
)
async def test_tables_that_cannot_be_used_any_more_are_an_outage_with_its_reason(
    settings: Settings, database: Database, postgres: Server, change: LiteralString, reason: str
) -> None:
    with postgres.admin("rota") as admin:
        admin.execute("SELECT set_config('search_path', %s, false)", (settings.database.schema,))
        admin.execute(change)
    with pytest.raises(UnreachableError, match=reason):
        await database.pulse()


@pytest.mark.parametrize("settings", ["postgresql"], indirect=True)
async def test_a_process_that_was_frozen_in_a_transaction_meets_an_outage_and_goes_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "FENCED_IDLE", "10ms")
    fence = await lead(database, "t")

    async def frozen(tx: Transaction) -> None:
        for _ in range(50):
            await asyncio.sleep(0.1)
            await tx.one("schema.pulse")

    with pytest.raises(UnreachableError, match="idle-in-transaction"):
        await database.write(frozen, fence)
    assert (await database.pulse()).schema


async def test_a_cancelled_caller_leaves_the_database_usable(database: Database) -> None:
    for _ in range(20):
        task = asyncio.create_task(database.read(lambda tx: tx.all("leaders.all")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (await database.pulse()).schema == program_schema()
