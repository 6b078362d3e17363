"""Backups on both kinds of database: made, published, retired, and finished by a successor."""

import asyncio
import json
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from psycopg import sql
from tests.support.postgres import PASSWORD, Server, binary
from tests.support.settings import postgres_settings, sqlite_settings
from tests.support.wait import until

from rota import wiring
from rota.backups import maker as making
from rota.backups.archive import read_archive
from rota.backups.dump import dump
from rota.backups.maker import Maker, verify
from rota.coordination.leader import Term
from rota.coordination.local import raise_epochs
from rota.coordination.tenure import Tenure
from rota.errors import BackupError, FencedError
from rota.settings import Settings
from rota.store.backups import BackupRecord, Backups
from rota.store.database import Database, Transaction
from rota.tasks.backups import NAME

TOKEN = "canary-in-the-backup"


@pytest.fixture
def settings(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> Settings:
    """Give the settings of a hub with a key file and a secret, which keeps two backups."""
    given = {
        "ROTA_BACKUPS_KEEP": "2",
        "ROTA_SERVER_METRICS_TOKEN": TOKEN,
        "ROTA_BACKUPS_DESTINATION": str(tmp_path / "elsewhere"),
    }
    if kind == "sqlite":
        made = sqlite_settings(tmp_path / "data", **given)
    else:
        server: Server = request.getfixturevalue("postgres")
        made = postgres_settings(tmp_path / "data", server, server.new_schema(), **given)
    made.keys_directory.mkdir(parents=True)
    (made.keys_directory / "hub.key").write_bytes(b"\x00key\xff")
    return made


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def lead(database: Database, holder: str = "here:1") -> Term:
    """Take the scheduler's lock, as far as the database knows."""
    (fence,) = await database.write(lambda tx: raise_epochs(tx, [NAME], holder))
    tenure = Tenure()
    tenure.renew(asyncio.get_running_loop().time() + 1000)  # what ends it is no matter of these tests
    return Term(fence, tenure)


async def records(database: Database) -> list[BackupRecord]:
    return await Backups(database).all()


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


def contents(path: Path) -> Mapping[str, bytes]:
    return {member.path: copy.read_bytes() for _, member, copy in read_archive(path)}


class TestMade:
    async def test_it_is_whole_and_for_its_owner_alone(self, settings: Settings, database: Database) -> None:
        made = await Maker(settings, database).make()
        (record,) = await records(database)
        assert (record.name, record.state, record.cause) == (made.name, "complete", "operator")
        assert (record.size, record.digest) == (made.size, made.digest)
        assert made.path == settings.backup_directory / made.name
        assert made.path.stat().st_mode & 0o777 == 0o600
        assert made.path.stat().st_size == made.size
        assert made.path.parent.stat().st_mode & 0o777 == 0o700
        assert files(settings.backup_directory) == [made.name]
        manifest = await verify(made.path)
        assert manifest.name == made.name
        assert manifest.database == ("sqlite" if settings.sqlite else "postgresql")

    async def test_keys_and_secrets_are_inside_and_the_settings_do_not_repeat_them(
        self, settings: Settings, database: Database
    ) -> None:
        inside = contents((await Maker(settings, database).make()).path)
        expected = {"settings.json", "keys/hub.key", "keys/credentials/server-metrics-token"}
        if settings.sqlite:
            expected |= {"database/rota.db"}
        else:
            expected |= {"database/rota.pgdump", "keys/credentials/database-password"}
            expected |= {"keys/credentials/tlog-checkpoint-key"}
            assert inside["keys/credentials/database-password"] == PASSWORD.encode()
        assert inside.keys() == expected
        assert inside["keys/hub.key"] == b"\x00key\xff"
        assert inside["keys/credentials/server-metrics-token"] == TOKEN.encode()
        shown = json.loads(inside["settings.json"])
        assert shown["server.metrics_token"] == "[redacted]"
        assert TOKEN.encode() not in inside["settings.json"]
        assert PASSWORD.encode() not in inside["settings.json"]

    async def test_a_scheduled_one_carries_its_leaders_epoch(
        self, settings: Settings, database: Database
    ) -> None:
        made = await Maker(settings, database, await lead(database)).make()
        (record,) = await records(database)
        assert (record.name, record.state, record.cause) == (made.name, "complete", "schedule")


class TestRestored:
    """What is in a backup can be made a database again, and is one moment of the old one."""

    PAIRS = 40

    async def write_pairs(self, database: Database) -> None:
        for number in range(self.PAIRS):

            async def both(tx: Transaction, number: int = number) -> None:
                for half in "ab":
                    await tx.run("backups.begin", name=f"{half}-{number}", cause="operator")

            await database.write(both)

    @pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
    async def test_from_sqlite(self, tmp_path: Path, settings: Settings, database: Database) -> None:
        _, made = await asyncio.gather(self.write_pairs(database), Maker(settings, database).make())
        (tmp_path / "restored.db").write_bytes(contents(made.path)["database/rota.db"])
        with closing(sqlite3.connect(tmp_path / "restored.db")) as restored:
            names = [row[0] for row in restored.execute("SELECT name FROM backups")]
        self.check(names)

    @pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
    async def test_from_postgresql(
        self, tmp_path: Path, postgres: Server, settings: Settings, database: Database
    ) -> None:
        _, made = await asyncio.gather(self.write_pairs(database), Maker(settings, database).make())
        (tmp_path / "dump").write_bytes(contents(made.path)["database/rota.pgdump"])
        restored = f"restored_{settings.database.schema}"
        with postgres.admin() as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(restored)))
        target = f"host={postgres.directory} port={postgres.port} user=postgres dbname={restored}"
        await asyncio.to_thread(
            subprocess.run,
            [
                binary("pg_restore"),
                "--no-owner",
                "--exit-on-error",
                f"--dbname={target}",
                str(tmp_path / "dump"),
            ],
            check=True,
        )
        with postgres.admin(restored) as admin:
            admin.execute("SELECT set_config('search_path', %s, false)", (settings.database.schema,))
            names = [str(row[0]) for row in admin.execute("SELECT name FROM backups")]
        self.check(names)

    def check(self, names: list[str]) -> None:
        halves = [{name[2:] for name in names if name.startswith(f"{half}-")} for half in "ab"]
        assert halves[0] == halves[1], "a transaction was torn in two"
        assert any(name.startswith("rota-") for name in names), "the backup knows of itself"


async def test_a_data_directory_with_signs_that_mean_something_in_an_address(tmp_path: Path) -> None:
    strange = sqlite_settings(tmp_path / "100%41 #1?mode=rwc")
    database = wiring.make_database(strange)
    await database.open()
    made = await Maker(strange, database).make()
    await database.close()
    copy = tmp_path / "copy"
    copy.write_bytes(contents(made.path)["database/rota.db"])
    with closing(sqlite3.connect(copy)) as opened:
        assert opened.execute("SELECT name, state FROM backups").fetchall() == [(made.name, "running")]


async def test_it_says_the_schema_of_the_database_and_not_of_the_program(
    settings: Settings, database: Database
) -> None:
    """A newer program may have brought the database further than this one knows."""
    step = {"number": 99, "name": "newer", "tolerates": 1, "digest": "", "applied_by": "there:2"}
    await database.write(lambda tx: tx.run("schema.record", **step))
    made = await Maker(settings, database).make()
    assert (await verify(made.path)).schema == 99


class TestNotMade:
    async def test_a_destination_that_is_no_directory(self, settings: Settings, database: Database) -> None:
        settings.backup_directory.write_text("")
        with pytest.raises(BackupError, match=r"rota-\S+\.tar\.zst: .*(exists|directory)"):
            await Maker(settings, database).make()
        (record,) = await records(database)
        assert record.state == "failed"
        assert record.error
        assert str(settings.backup_directory) in record.error

    @pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
    async def test_the_dumping_program_is_not_installed(
        self, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(
            BackupError, match="pg_dump is not installed: install the package postgresql-client"
        ):
            await Maker(settings, database).make()
        assert files(settings.backup_directory) == []

    @pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
    async def test_the_dumping_program_fails(self, settings: Settings, database: Database) -> None:
        nowhere = replace(settings.database, direct_url=settings.database.url + "_nowhere")
        with pytest.raises(BackupError, match=r'pg_dump failed: .*database "rota_nowhere" does not exist'):
            await Maker(replace(settings, database=nowhere), database).make()
        assert files(settings.backup_directory) == []
        (record,) = await records(database)
        assert record.state == "failed"
        assert PASSWORD not in str(record.error)

    async def test_an_operator_who_interrupts_leaves_nothing_behind(
        self, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def endless(_: Settings, directory: Path) -> Path:
            (directory / "half").write_text("half")
            await asyncio.Event().wait()
            return directory

        monkeypatch.setattr(making, "dump", endless)
        task = asyncio.create_task(Maker(settings, database).make())
        await until(lambda: list(settings.backup_directory.glob(".*/half")))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert files(settings.backup_directory) == []
        (record,) = await records(database)
        assert (record.state, record.error) == ("failed", "interrupted")


class TestFenced:
    """A process that has lost its lock publishes nothing."""

    async def test_under_an_epoch_that_was_followed(
        self, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = dump

        async def overtaken(given: Settings, directory: Path) -> Path:
            await lead(database, "there:2")
            return await real(given, directory)

        monkeypatch.setattr(making, "dump", overtaken)
        with pytest.raises(FencedError):
            await Maker(settings, database, await lead(database)).make()
        assert files(settings.backup_directory) == []
        (record,) = await records(database)
        assert record.state == "running"

        monkeypatch.undo()
        await Maker(settings, database, await lead(database, "there:2")).recover()
        (record,) = await records(database)
        assert (record.state, record.error) == ("failed", "its process ended before it was whole")

    async def test_without_trust_in_the_lock(
        self, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, term = dump, await lead(database)

        async def late(given: Settings, directory: Path) -> Path:
            term.over = True
            return await real(given, directory)

        monkeypatch.setattr(making, "dump", late)
        with pytest.raises(FencedError, match="no longer holds the lock"):
            await Maker(settings, database, term).make()
        assert files(settings.backup_directory) == []

    async def test_it_does_not_even_begin_under_an_old_epoch(
        self, settings: Settings, database: Database
    ) -> None:
        old = await lead(database)
        await lead(database, "there:2")
        with pytest.raises(FencedError):
            await Maker(settings, database, old).make()
        with pytest.raises(FencedError):
            await Maker(settings, database, old).make()
        assert await records(database) == []


class TestRecovered:
    async def interrupted(
        self, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> BackupRecord:
        """Make a backup whose process is stopped between its row and its rename."""

        def stopped(*_: Path) -> None:
            raise asyncio.CancelledError

        with monkeypatch.context() as patch:
            patch.setattr(making, "_publish", stopped)
            with pytest.raises(asyncio.CancelledError):
                await Maker(settings, database, await lead(database)).make()
        (record,) = await records(database)
        assert record.state == "complete"
        assert not (settings.backup_directory / record.name).exists()
        return record

    async def test_what_was_recorded_whole_is_published_late(
        self, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        record = await self.interrupted(settings, database, monkeypatch)
        await Maker(settings, database, await lead(database, "there:2")).recover()
        assert files(settings.backup_directory) == [record.name]
        await verify(settings.backup_directory / record.name)

    async def test_a_file_that_is_not_what_was_recorded_is_not_published(
        self, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        record = await self.interrupted(settings, database, monkeypatch)
        (partial,) = settings.backup_directory.glob(".*.partial")
        partial.write_bytes(partial.read_bytes() + b"!")
        await Maker(settings, database, await lead(database, "there:2")).recover()
        assert not (settings.backup_directory / record.name).exists()

    async def test_a_rename_that_fails_is_made_up_for(
        self, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: Path) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(making, "_publish", full)
            with pytest.raises(BackupError, match="No space left"):
                await Maker(settings, database, await lead(database)).make()
        await Maker(settings, database, await lead(database)).recover()
        (record,) = await records(database)
        assert files(settings.backup_directory) == [record.name]

    async def test_a_dead_one_is_given_up_and_cleaned_away(
        self, settings: Settings, database: Database
    ) -> None:
        name = "rota-20260101T000000Z-abcdef.tar.zst"
        await Backups(database).begin(name, (await lead(database)).fence)
        scratch = settings.backup_directory / f".{name}.d"
        scratch.mkdir(parents=True)
        (scratch / "rota.db").write_text("half")
        (settings.backup_directory / f".{name}.partial").write_text("half")
        await Maker(settings, database, await lead(database, "there:2")).recover()
        assert files(settings.backup_directory) == []
        (record,) = await records(database)
        assert (record.state, record.error) == ("failed", "its process ended before it was whole")

    async def test_an_operators_own_is_left_alone(self, settings: Settings, database: Database) -> None:
        await Backups(database).begin("rota-x.tar.zst", None)
        await Maker(settings, database, await lead(database)).recover()
        (record,) = await records(database)
        assert record.state == "running"

    async def test_an_operators_own_that_died_is_given_up_in_the_end(
        self, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(making, "OPERATORS_LONGEST", timedelta(0))
        await Backups(database).begin("rota-x.tar.zst", None)
        await Maker(settings, database, await lead(database)).recover()
        (record,) = await records(database)
        assert (record.state, record.error) == ("failed", "its process ended before it was whole")


class TestRetired:
    async def test_the_newest_are_kept(self, settings: Settings, database: Database) -> None:
        term = await lead(database)
        made = [await Maker(settings, database, term).make() for _ in range(4)]
        assert await Maker(settings, database, term).retire() == 2
        assert files(settings.backup_directory) == sorted(one.name for one in made[2:])
        states = {record.name: record.state for record in await records(database)}
        assert states == {
            one.name: "removed" if number < 2 else "complete" for number, one in enumerate(made)
        }
        assert await Maker(settings, database, term).retire() == 0

    async def test_a_file_that_is_gone_already_is_no_obstacle(
        self, settings: Settings, database: Database
    ) -> None:
        term = await lead(database)
        made = [await Maker(settings, database, term).make() for _ in range(3)]
        shutil.rmtree(settings.backup_directory)
        assert await Maker(settings, database, term).retire() == 1
        assert {one.name for one in made} == {record.name for record in await records(database)}

    async def test_a_removal_that_was_interrupted_is_finished(
        self, settings: Settings, database: Database
    ) -> None:
        term = await lead(database)
        made = await Maker(settings, database, term).make()
        await Backups(database).remove(made.name, term.fence)
        await Maker(settings, database, await lead(database, "there:2")).recover()
        assert files(settings.backup_directory) == []

    async def test_a_disk_that_hangs_does_not_hold_up_the_process(
        self, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        term, real, on_the_loop = await lead(database), Path.unlink, []

        def slow(path: Path, missing_ok: bool = False) -> None:  # noqa: FBT001, FBT002 - its own signature
            on_the_loop.append(threading.current_thread() is threading.main_thread())
            real(path, missing_ok=missing_ok)

        for _ in range(3):
            await Maker(settings, database, term).make()
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", slow)
            await Maker(settings, database, term).retire()
            await Maker(settings, database, term).recover()
        assert on_the_loop == [False, False]

    async def test_nothing_is_removed_without_the_lock(self, settings: Settings, database: Database) -> None:
        term = await lead(database)
        made = [await Maker(settings, database, term).make() for _ in range(3)]
        await lead(database, "there:2")
        with pytest.raises(FencedError):
            await Maker(settings, database, term).retire()
        assert files(settings.backup_directory) == sorted(one.name for one in made)


async def test_a_name_that_leads_out_of_the_directory_is_not_found(
    settings: Settings, database: Database
) -> None:
    assert database
    (settings.server.data / "rota.db").touch()
    maker = Maker(settings, wiring.make_database(settings))
    for name in ("../data/rota.db", str(settings.server.data / "rota.db"), "nothing", ""):
        with pytest.raises(BackupError, match="holds no backup"):
            maker.find(name)


async def test_a_path_that_the_shell_completed_is_found(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = Maker(settings, database)
    made = await maker.make()
    monkeypatch.chdir(settings.backup_directory.parent)
    assert maker.find(f"{settings.backup_directory.name}/{made.name}") == made.path
    assert maker.find(str(made.path)) == made.path


async def test_a_scheduled_one_that_failed_is_tried_again_the_same_night(
    settings: Settings, database: Database
) -> None:
    kept = Backups(database)
    term = await lead(database)
    await kept.begin("failed", term.fence)
    await kept.fail("failed", "the disk was full", term.fence)
    last, failed, now = await kept.last_scheduled()
    assert last is None
    assert failed is not None
    assert failed <= now
    made = await Maker(settings, database, term).make()
    last, failed, _ = await kept.last_scheduled()
    assert (last is not None, failed is not None, made.path.exists()) == (True, True, True)
