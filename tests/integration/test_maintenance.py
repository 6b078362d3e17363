"""The nightly upkeep and the daily backup, through the database of each kind."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.postgres import Server
from tests.support.settings import postgres_settings, sqlite_settings
from tests.support.wait import until

from rota.coordination.leader import LedTask, Term
from rota.coordination.local import raise_epochs
from rota.coordination.tenure import Tenure
from rota.errors import FencedError
from rota.settings import Settings
from rota.store.backups import Backups
from rota.store.database import Database
from rota.store.history import Execution, History
from rota.tasks import backups, maintenance
from rota.tasks.backups import Scheduler
from rota.tasks.maintenance import Nightly

Age = Callable[[int], None]


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Give the settings of a hub that keeps history for ten days and one backup."""
    given = {"ROTA_MAINTENANCE_KEEP_DAYS": "10", "ROTA_BACKUPS_KEEP": "1"}
    if request.param == "sqlite":
        return sqlite_settings(tmp_path, **given)
    server: Server = request.getfixturevalue("postgres")
    return postgres_settings(tmp_path, server, server.new_schema(), **given)


@pytest.fixture
def age(request: pytest.FixtureRequest, settings: Settings) -> Age:
    """Give a function that makes every row so many days older, as the time would."""

    def in_sqlite(days: int) -> None:
        with closing(sqlite3.connect(settings.sqlite_path)) as opened:
            for table in ("task_history", "backups"):
                opened.execute(f"UPDATE {table} SET started_at = started_at - ?", (days * 86_400_000_000,))  # noqa: S608
            opened.commit()

    def in_postgresql(days: int) -> None:
        server: Server = request.getfixturevalue("postgres")
        with server.admin("rota") as admin:
            admin.execute("SELECT set_config('search_path', %s, false)", (settings.database.schema,))
            admin.execute(
                "UPDATE task_history SET started_at = started_at - make_interval(days => %s)", (days,)
            )
            admin.execute("UPDATE backups SET started_at = started_at - make_interval(days => %s)", (days,))

    return in_sqlite if settings.sqlite else in_postgresql


async def term_of(database: Database, task: str) -> Term:
    (fence,) = await database.write(lambda tx: raise_epochs(tx, [task], "here:1"))
    tenure = Tenure()
    tenure.renew(asyncio.get_running_loop().time() + 1000)  # what ends it is no matter of these tests
    return Term(fence, tenure)


async def once(body: LedTask, term: Term) -> None:
    """Let a task look once, and end as when it is asked to stop."""
    term.stopping.set()
    await body(term)


async def runs(database: Database, task: str) -> list[Execution]:
    return [run for run in await History(database).recent(100) if run.task == task]


class TestNightly:
    async def test_it_records_what_it_did(self, settings: Settings, database: Database) -> None:
        await once(Nightly(settings, database), await term_of(database, maintenance.NAME))
        (run,) = await runs(database, maintenance.NAME)
        assert run.outcome == "pruned 0 rows; the database is well"
        assert run.finished_at is not None
        assert run.started_at <= run.finished_at

    async def test_it_runs_once_a_day(self, settings: Settings, database: Database, age: Age) -> None:
        task, term = Nightly(settings, database), await term_of(database, maintenance.NAME)
        for _ in range(3):
            await once(task, term)
        assert len(await runs(database, maintenance.NAME)) == 1
        age(1)
        for _ in range(3):
            await once(task, term)
        assert len(await runs(database, maintenance.NAME)) == 2

    async def test_it_prunes_what_is_old_and_keeps_the_rest(
        self, settings: Settings, database: Database, age: Age
    ) -> None:
        term, records, history = await term_of(database, "t"), Backups(database), History(database)
        for name, ending in (
            ("gone", "remove"),
            ("broken", "fail"),
            ("whole", "complete"),
            ("under way", ""),
        ):
            await records.begin(name, None)
            if ending == "remove":
                await records.remove(name, None)
            elif ending == "fail":
                await records.fail(name, "reason", None)
            elif ending:
                await records.complete(name, 1, "d", None)
        await history.begin(term.fence)
        age(8)
        await history.begin(term.fence)
        await records.begin("gone lately", None)
        await records.remove("gone lately", None)
        age(3)
        await once(Nightly(settings, database), await term_of(database, maintenance.NAME))
        (run,) = await runs(database, maintenance.NAME)
        assert run.outcome == "pruned 3 rows; the database is well"
        assert {record.name for record in await records.all()} == {"whole", "under way", "gone lately"}
        assert len(await runs(database, "t")) == 1

    async def test_it_never_runs_without_a_schedule(self, settings: Settings, database: Database) -> None:
        never = replace(settings, maintenance=replace(settings.maintenance, schedule=""))
        await once(Nightly(never, database), await term_of(database, maintenance.NAME))
        assert await runs(database, maintenance.NAME) == []

    async def test_it_does_nothing_under_an_old_epoch(self, settings: Settings, database: Database) -> None:
        old = await term_of(database, maintenance.NAME)
        await term_of(database, maintenance.NAME)
        with pytest.raises(FencedError):
            await once(Nightly(settings, database), old)
        assert await runs(database, maintenance.NAME) == []

    @pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
    async def test_it_tells_of_a_damaged_database(self, settings: Settings, database: Database) -> None:
        """An index that lacks a row is what a check of the file finds."""
        await Backups(database).begin("one", None)
        with closing(sqlite3.connect(settings.sqlite_path, isolation_level=None)) as opened:
            opened.execute("PRAGMA writable_schema = ON")
            opened.execute("CREATE TABLE spare (x)")
            opened.execute("CREATE INDEX spare_x ON spare (x)")
            opened.execute("INSERT INTO spare VALUES (1)")
            opened.execute(
                "UPDATE sqlite_schema SET rootpage = "
                "(SELECT rootpage FROM sqlite_schema WHERE name = 'spare') WHERE name = 'spare_x'"
            )
        await once(Nightly(settings, database), await term_of(database, maintenance.NAME))
        (run,) = await runs(database, maintenance.NAME)
        assert run.outcome is not None
        assert "the database has problems: " in run.outcome

    @pytest.mark.parametrize("settings", ["postgresql"], indirect=True)
    async def test_it_tells_of_an_index_that_is_not_usable(
        self, settings: Settings, database: Database, postgres: Server
    ) -> None:
        with postgres.admin("rota") as admin:
            admin.execute(
                "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass",
                (f"{settings.database.schema}.task_history_by_task",),
            )
        await once(Nightly(settings, database), await term_of(database, maintenance.NAME))
        (run,) = await runs(database, maintenance.NAME)
        assert run.outcome is not None
        assert "has problems: index task_history_by_task is invalid" in run.outcome


async def test_what_ran_while_the_clock_was_wrong_holds_nothing_up(
    settings: Settings, database: Database, age: Age
) -> None:
    """A host that began with its clock in the next year did everything once, and failed at once."""
    nightly, daily = Nightly(settings, database), Scheduler(settings, database)
    upkeep, scheduler = await term_of(database, maintenance.NAME), await term_of(database, backups.NAME)
    await once(nightly, upkeep)
    await once(daily, scheduler)
    (old,) = settings.backup_directory.glob("rota-*")
    await Backups(database).begin("rota-failed", scheduler.fence)
    await Backups(database).fail("rota-failed", "no room", scheduler.fence)
    age(-400)
    for _ in range(2):
        await once(nightly, upkeep)
        await once(daily, scheduler)
    assert len(await runs(database, maintenance.NAME)) == 2
    assert len(await runs(database, backups.NAME)) == 2
    (new,) = settings.backup_directory.glob("rota-*")
    assert new != old, "the one backup to keep is the one of today"


class TestDailyBackup:
    async def test_one_is_made_each_day_and_older_ones_go(
        self, settings: Settings, database: Database, age: Age
    ) -> None:
        task, term = Scheduler(settings, database), await term_of(database, backups.NAME)
        for _ in range(2):
            await once(task, term)
        (first,) = await Backups(database).all()
        assert (first.state, first.cause) == ("complete", "schedule")
        age(1)
        await once(task, term)
        newest, oldest = await Backups(database).all()
        assert (newest.state, oldest.state, oldest.name) == ("complete", "removed", first.name)
        assert [path.name for path in settings.backup_directory.glob("rota-*")] == [newest.name]
        latest, _ = await runs(database, backups.NAME)
        assert latest.outcome == f"made {newest.name}, removed 1 older"

    async def test_an_operators_backup_takes_no_days_place(
        self, settings: Settings, database: Database
    ) -> None:
        await Backups(database).begin("of-an-operator", None)
        await once(Scheduler(settings, database), await term_of(database, backups.NAME))
        assert {record.cause for record in await Backups(database).all()} == {"operator", "schedule"}

    async def test_one_that_cannot_be_made_is_recorded_with_its_reason(
        self, settings: Settings, database: Database
    ) -> None:
        settings.backup_directory.write_text("in the way")
        await once(Scheduler(settings, database), await term_of(database, backups.NAME))
        (run,) = await runs(database, backups.NAME)
        assert run.outcome is not None
        assert run.outcome.startswith("failed: rota-")
        (record,) = await Backups(database).all()
        assert record.state == "failed"

    async def test_it_looks_again_until_it_is_asked_to_stop(
        self, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(backups, "LOOK", 0.01)
        looks: list[str] = []

        def counted(clock: str, *_: object) -> bool:
            looks.append(clock)
            return False

        monkeypatch.setattr(backups, "due", counted)
        term = await term_of(database, backups.NAME)
        task = asyncio.ensure_future(Scheduler(settings, database)(term))
        await until(lambda: len(looks) >= 3)
        term.stopping.set()
        await asyncio.wait_for(task, timeout=5)
        assert set(looks) == {settings.backups.schedule}


async def test_an_execution_whose_process_died_does_not_go_on_for_ever(database: Database) -> None:
    history = History(database)
    await history.begin((await term_of(database, maintenance.NAME)).fence)
    successor = await term_of(database, maintenance.NAME)
    await history.begin(successor.fence)
    newest, oldest = await history.recent(2)
    assert (newest.outcome, newest.finished_at) == (None, None)
    assert oldest.outcome == "its process ended before it did"
    assert oldest.finished_at is not None
