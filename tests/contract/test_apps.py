"""Apps, artifacts, builds, configuration and releases on both kinds of database."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest
from tests.support.sql import run

from rota.configuration.vault import Answering, Vault, new_key, sealed_values, size_of
from rota.errors import ConflictError, InputError, KeyFileError, MalformedError, NotFoundError
from rota.releases.making import Making, Wanted, again, make
from rota.releases.statement import read, written
from rota.secret import Secret
from rota.settings import Settings
from rota.settings.model import ConfigurationSettings
from rota.store.apps import Apps
from rota.store.artifacts import Artifacts
from rota.store.builds import Builds, BuildState
from rota.store.configurations import ConfigurationRow, Configurations
from rota.store.database import Database, Transaction
from rota.store.releases import Release, Releases
from rota.store.tlog import Outbox
from rota.wire.statements import Health, Process, Requires

HASH, SHA = "ab" * 32, "cd" * 32
WEB = {"web": Process(command="python app.py", health=Health(path="/up"))}


async def an_app(database: Database, name: str = "shop", artifact: str = HASH) -> None:
    async def work(tx: Transaction) -> None:
        await Apps.add(tx, name)
        await Artifacts.add(tx, artifact, SHA, 7, "build")

    await database.write(work)


async def a_release(database: Database, app: str = "shop", **rest: object) -> Release:
    wanted = Wanted(app=app, artifact=str(rest.pop("artifact", HASH)), processes=WEB, **rest)  # type: ignore[arg-type]
    return await database.write(lambda tx: make(tx, wanted, Making("deploy", "ada")))


async def serve(database: Database, release: Release) -> None:
    assert await database.write(lambda tx: Releases.mark_served(tx, release.app, release.number))


async def configure(
    database: Database, number: int, values: Mapping[str, bytes], public: str, app: str = "shop"
) -> bool:
    names, sealed = sealed_values(app, values, public)
    row = ConfigurationRow(app=app, number=number, names=names, sealed=sealed, actor="ada")
    return await database.write(lambda tx: Configurations.add(tx, row))


class TestApps:
    async def test_one_is_added_once_and_moves_only_from_where_it_was_read(self, database: Database) -> None:
        apps = Apps(database)
        assert await database.write(lambda tx: Apps.add(tx, "shop"))
        assert not await database.write(lambda tx: Apps.add(tx, "shop"))
        found = await apps.find("shop")
        assert found is not None
        assert (found.release, found.version, found.gated) == (None, 1, False)
        assert await database.write(lambda tx: Apps.move(tx, "shop", 3, found.version))
        assert not await database.write(lambda tx: Apps.move(tx, "shop", 4, found.version))
        assert await database.write(lambda tx: Apps.gate(tx, "shop", gated=True))
        (now,) = await apps.all()
        assert (now.release, now.version, now.gated) == (3, 2, True)
        assert await apps.find("nothing") is None
        assert not await database.write(lambda tx: Apps.gate(tx, "nothing", gated=True))


class TestArtifacts:
    async def test_one_of_use_is_not_forgotten(self, database: Database) -> None:
        await an_app(database)
        artifacts = Artifacts(database)
        found = await artifacts.find(HASH)
        assert found is not None
        assert (found.sha256, found.size, found.kind) == (SHA, 7, "build")
        assert not await database.write(lambda tx: Artifacts.remove(tx, HASH, 60))
        assert await database.write(lambda tx: Artifacts.use(tx, HASH))
        assert await database.write(lambda tx: Artifacts.remove(tx, HASH, 0))
        assert not await database.write(lambda tx: Artifacts.use(tx, HASH))
        assert await artifacts.all() == []


class TestBuilds:
    async def test_one_ends_once(self, database: Database) -> None:
        builds = Builds(database)
        build = await database.write(lambda tx: Builds.add(tx, "shop", HASH, "ada"))
        assert not await database.write(lambda tx: Builds.finish(tx, build, HASH, "{}"))
        assert await database.write(lambda tx: Builds.begin(tx, build))
        assert await database.write(lambda tx: Builds.begin(tx, build)), "by the next worker"
        assert [each.id for each in await builds.underway()] == [build]
        assert await database.write(lambda tx: Builds.finish(tx, build, HASH, '{"a":1}'))
        for change in (
            lambda tx: Builds.begin(tx, build),
            lambda tx: Builds.finish(tx, build, HASH, "{}"),
            lambda tx: Builds.end(tx, build, BuildState.FAILED, "x"),
        ):
            assert not await database.write(change)
        (found,) = await builds.of("shop")
        assert (found.state, found.artifact, found.manifest) == (BuildState.DONE, HASH, '{"a":1}')
        assert found.state.ended
        assert found.started_at is not None
        assert found.ended_at is not None
        assert await builds.underway() == []

    async def test_one_that_waits_can_be_cancelled(self, database: Database) -> None:
        build = await database.write(lambda tx: Builds.add(tx, "shop", HASH, "ada"))
        assert await database.write(lambda tx: Builds.end(tx, build, BuildState.CANCELLED, "by ada"))
        found = await Builds(database).find(build)
        assert found is not None
        assert (found.state, found.reason) == (BuildState.CANCELLED, "by ada")


class TestConfiguration:
    @pytest.fixture
    def vault(self, settings: Settings) -> Vault:
        return Vault(replace(settings, configuration=ConfigurationSettings(key=Secret(new_key()))))

    async def test_it_is_sealed_and_opened(
        self, settings: Settings, database: Database, vault: Vault
    ) -> None:
        values = {"TOKEN": b"\xff\x01 sentinel\n", "EMPTY": b""}
        assert await configure(database, 1, values, vault.public)
        newest = await Configurations(database).newest("shop")
        assert newest is not None
        assert vault.open(newest) == values
        assert vault.open(None) == {}
        assert {name: size_of(sealed) for name, sealed in newest.sealed.items()} == {"TOKEN": 12, "EMPTY": 0}
        kept = run(settings, "SELECT names, sealed FROM configurations")
        assert "sentinel" not in str(kept)

    async def test_of_two_that_change_one_version_one_is_told(self, database: Database, vault: Vault) -> None:
        both = await asyncio.gather(
            *(configure(database, 1, {"A": value}, vault.public) for value in (b"1", b"2"))
        )
        assert sorted(both) == [False, True]
        assert len(await Configurations(database).of("shop")) == 1

    async def test_a_value_in_anothers_place_is_not_opened(self, database: Database, vault: Vault) -> None:
        await configure(database, 1, {"A": b"1", "B": b"2"}, vault.public)
        row = await Configurations(database).newest("shop")
        assert row is not None
        swapped = {"A": row.sealed["B"], "B": row.sealed["A"]}
        for wrong in (replace(row, sealed=swapped), replace(row, app="other")):
            with pytest.raises(KeyFileError, match="does not open"):
                vault.open(wrong)

    async def test_an_old_key_behind_the_new_one_still_opens(self, settings: Settings) -> None:
        old, new = new_key(), new_key()

        def with_key(text: str) -> Vault:
            return Vault(replace(settings, configuration=ConfigurationSettings(key=Secret(text))))

        names, sealed = sealed_values("shop", {"A": b"1"}, with_key(old).public)
        row = ConfigurationRow(app="shop", number=1, names=names, sealed=sealed, actor="ada")
        both = with_key(f"{new},{old}")
        assert both.open(row) == {"A": b"1"}
        assert both.public == with_key(new).public
        with pytest.raises(KeyFileError, match="old key"):
            with_key(new).open(row)
        with pytest.raises(KeyFileError, match="rota config key"):
            _ = with_key("nonsense").public

    async def test_a_hub_without_a_key_says_so_and_one_machine_makes_one(self, settings: Settings) -> None:
        vault = Vault(settings)
        if settings.sqlite:
            assert vault.public == Vault(settings).public
        else:
            with pytest.raises(ConflictError, match="no key"):
                _ = vault.public

    async def test_the_key_told_last_is_the_one_to_seal_to(self, database: Database) -> None:
        configurations = Configurations(database)
        assert await configurations.key() is None
        for key in ("a", "b", "a"):
            await database.write(lambda tx, key=key: Configurations.tell_key(tx, key))  # type: ignore[misc]
            assert await configurations.key() == key

    async def test_a_wish_is_answered_to_who_asked_and_forgotten(self, database: Database) -> None:
        configurations, asking = Configurations(database), Answering()
        wish = await database.write(lambda tx: Configurations.ask(tx, "shop", 3, asking.public))
        found = await configurations.opening(wish)
        assert found is not None
        assert (found.app, found.number, found.public, found.sealed) == ("shop", 3, asking.public, None)
        _, sealed = sealed_values("shop", {"A": b"1"}, asking.public)
        await database.write(lambda tx: Configurations.answer(tx, wish, sealed["A"], ""))
        found = await configurations.opening(wish)
        assert found is not None
        assert found.sealed == sealed["A"]
        await database.write(lambda tx: Configurations.forget(tx, wish, 3600))
        assert await configurations.opening(wish) is None


class TestReleases:
    async def test_they_are_numbered_per_app_and_wait_for_the_log(self, database: Database) -> None:
        await an_app(database)
        await an_app(database, "blog")
        first, second = await a_release(database), await a_release(database, build=4)
        other = await a_release(database, "blog")
        assert (first.number, second.number, other.number) == (1, 2, 1)
        assert second.build == 4
        found = await Releases(database).find("shop", 1)
        assert found == first
        assert found is not None
        assert found.statement == read(found.text.encode())
        assert (found.statement.artifact, found.statement.sha256, found.statement.size) == (HASH, SHA, 7)
        waiting = await Outbox(database).waiting(9)
        assert [(each.id, each.entry) for each in waiting[:1]] == [(first.act, first.text.encode())]
        assert [each.number for each in await Releases(database).of("shop")] == [2, 1]
        assert await Releases(database).find("shop", 3) is None

    async def test_ten_at_once_get_ten_numbers(self, database: Database) -> None:
        await an_app(database)
        made = await asyncio.gather(*(a_release(database) for _ in range(10)))
        assert sorted(each.number for each in made) == list(range(1, 11))

    async def test_the_newest_configuration_is_taken_unless_another_is_named(
        self, database: Database
    ) -> None:
        await an_app(database)
        assert (await a_release(database)).configuration == 0
        public = Answering().public
        await configure(database, 1, {"A": b"1"}, public)
        await configure(database, 2, {"A": b"2"}, public)
        assert (await a_release(database)).statement.configuration == 2
        assert (await a_release(database, configuration=1)).configuration == 1

    async def test_going_back_makes_a_new_one_of_the_old_parts(self, database: Database) -> None:
        await an_app(database)
        old = await a_release(database)
        made = await database.write(lambda tx: again(tx, old, Making("rollback to 1", "bob")))
        assert (made.number, made.cause, made.actor) == (2, "rollback to 1", "bob")
        assert replace(made, number=1).statement.artifact == old.artifact
        assert made.statement.number == 2
        await database.write(lambda tx: Artifacts.remove(tx, HASH, 0))
        with pytest.raises(ConflictError, match="no longer kept"):
            await database.write(lambda tx: again(tx, old, Making("x", "bob")))

    async def test_the_one_to_go_back_to_served_and_differs(self, database: Database) -> None:
        await an_app(database)
        await an_app(database, artifact="ef" * 32)
        good = await a_release(database)
        await a_release(database)  # never served
        same = await a_release(database, artifact="ef" * 32)
        now = await a_release(database, artifact="ef" * 32)
        for each in (good, same, now):
            await serve(database, each)
        found = await database.read(lambda tx: Releases.previous(tx, "shop", now.number))
        assert found is not None
        assert found.number == good.number
        assert await database.read(lambda tx: Releases.previous(tx, "shop", good.number)) is None

    async def test_what_is_not_there_is_refused(self, database: Database) -> None:
        with pytest.raises(NotFoundError, match="no app"):
            await a_release(database)
        await an_app(database)
        with pytest.raises(NotFoundError, match="artifact"):
            await a_release(database, artifact="00" * 32)
        assert await Outbox(database).waiting(9) == []

    async def test_an_entry_is_read_only_as_it_was_written(self, database: Database) -> None:
        await an_app(database)
        release = await a_release(database, requires=Requires(memory=5), environment={"A": "ä"})
        entry = release.text.encode()
        assert read(entry).environment == {"A": "ä"}
        for wrong in (
            entry.replace(b"release.make", b"release.fake"),
            entry.replace(b'"app":"shop"', b'"app":"blog"'),
            entry.replace(b'"number":1', b'"number":0'),
            entry.replace(b'"number":1', b'"number":1,"more":1'),
            entry + b" ",
        ):
            with pytest.raises(MalformedError):
                read(wrong)
        with pytest.raises(InputError, match="most"):
            written(msgspec.structs.replace(release.statement, hook="x" * 40_000), "ada")
