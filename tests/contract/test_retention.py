"""What is kept of artifacts, on both kinds of database: one can go back to each release that is kept."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from tests.support.tlog_hub import lead

from rota.artifacts.measuring import measure
from rota.artifacts.store import ArtifactStore
from rota.releases.making import Making, Wanted, again, make
from rota.releases.retention import IDLE, NEWEST, Retention, kept
from rota.settings import Settings
from rota.store.apps import Apps
from rota.store.artifacts import Artifacts
from rota.store.builds import Builds
from rota.store.database import Database, Transaction
from rota.store.releases import Release, Releases
from rota.wire.statements import Process


class Shop:
    """An app whose releases come and serve."""

    def __init__(self, settings: Settings, database: Database, place: Path) -> None:
        self.database = database
        self.store = ArtifactStore(settings.artifacts_directory)
        self.retention = Retention(settings, database)
        self._place = place

    def artifact(self, text: str) -> str:
        """Keep a file; return its name."""
        path = self.store.partial("ab" * 32).with_name("made")
        path.write_text(text)
        found = measure(path)
        self.store.publish(path, found.hash, found.chunks)
        return found.hash

    async def deploy(self, text: str, *, serves: bool = True) -> Release:
        """Build, release and maybe serve."""
        made, source = self.artifact(text), self.artifact("source of " + text)

        async def work(tx: Transaction) -> Release:
            await Apps.add(tx, "shop")
            await Artifacts.add(tx, made, "cd" * 32, 7, "build")
            await Artifacts.add(tx, source, "", 7, "source")
            build = await Builds.add(tx, "shop", source, "ada")
            await Builds.begin(tx, build)
            await Builds.finish(tx, build, made, "{}")
            processes = {"web": Process(command="x")}
            wanted = Wanted(app="shop", artifact=made, processes=processes, build=build)
            release = await make(tx, wanted, Making("deploy", "ada"))
            app = await Apps.hold(tx, "shop")
            assert app is not None
            if serves:
                await Releases.mark_served(tx, "shop", release.number)
                await Apps.move(tx, "shop", release.number, app.version)
            return release

        return await self.database.write(work)

    async def clear(self, idle: float = 0.0) -> int:
        """Clear, as the nightly upkeep does."""
        return await self.retention.clear(await lead(self.database, "maintenance.nightly"), idle)


@pytest.fixture
def shop(settings: Settings, database: Database, tmp_path: Path) -> Shop:
    artifacts = replace(settings.artifacts, keep_releases=3)
    return Shop(replace(settings, artifacts=artifacts), database, tmp_path)


async def test_one_can_go_back_to_each_release_that_is_kept(shop: Shop) -> None:
    made = [await shop.deploy(f"app {number}") for number in range(8)]
    assert await shop.clear() == 2 * 5
    for release in made[-3:]:
        assert shop.store.is_whole(release.artifact)
        back = await shop.database.write(lambda tx, old=release: again(tx, old, Making("x", "ada")))  # type: ignore[misc]
        assert back.artifact == release.artifact
    assert [shop.store.holds(release.artifact) for release in made[:5]] == [False] * 5


async def test_failures_drive_out_nothing_that_served(shop: Shop) -> None:
    good = [await shop.deploy(f"good {number}") for number in range(3)]
    bad = [await shop.deploy(f"bad {number}", serves=False) for number in range(20)]
    await shop.clear()
    assert all(shop.store.holds(release.artifact) for release in good)
    assert [shop.store.holds(release.artifact) for release in bad].count(True) == NEWEST


async def test_what_was_of_use_a_moment_ago_stays(shop: Shop) -> None:
    for number in range(8):
        await shop.deploy(f"app {number}")
    assert await shop.clear(IDLE) == 0


async def test_what_is_being_built_stays(shop: Shop) -> None:
    source = shop.artifact("waits")

    async def work(tx: Transaction) -> None:
        await Artifacts.add(tx, source, "", 7, "source")
        await Builds.add(tx, "shop", source, "ada")

    await shop.database.write(work)
    assert await shop.clear() == 0
    assert shop.store.holds(source)


async def test_damage_is_found_within_a_week(shop: Shop) -> None:
    release = await shop.deploy("app")
    path = shop.store.path(release.artifact)
    path.chmod(0o600)
    path.write_text("rot")
    found = [each for night in range(7) for each in shop.retention.damaged(night)]
    assert found == [release.artifact]


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 4)), max_size=30),
    st.integers(1, 6),
    st.data(),
)
@hypothesis(max_examples=200, deadline=None)
def test_the_current_the_running_and_the_way_back_are_kept_whatever_came_before(
    made: list[tuple[bool, int]], keep: int, data: st.DataObject
) -> None:
    releases = [
        Release(
            app="shop",
            number=number,
            artifact=str(artifact),
            configuration=0,
            text="",
            act=number,
            build=None,
            cause="deploy",
            actor="ada",
            served=served,
        )
        for number, (served, artifact) in enumerate(made, 1)
    ][::-1]
    served = [each for each in releases if each.served]
    current = data.draw(st.sampled_from([each.number for each in served])) if served else None
    running = (
        set(data.draw(st.lists(st.sampled_from(range(1, len(made) + 1)), max_size=3))) if made else set()
    )
    numbers = {each.number for each in kept(releases, current, running, keep)}
    assert running <= numbers
    assert current is None or current in numbers
    assert {each.number for each in served[:keep]} <= numbers
    now = next((each for each in releases if each.number == current), None)
    back = [each for each in served if now and each.number < now.number and each.artifact != now.artifact]
    assert not back or back[0].number in numbers
    assert len(numbers) <= keep + len(running) + NEWEST + 2
