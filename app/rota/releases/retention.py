"""Which artifacts are kept: of good releases, of the way back, of whatever runs or is being built."""

from collections.abc import Collection, Sequence

import structlog

from rota.artifacts.store import ArtifactStore
from rota.coordination.epoch import Fence
from rota.settings import Settings
from rota.store.apps import Apps
from rota.store.artifacts import Artifacts
from rota.store.builds import Builds
from rota.store.database import Database, Transaction
from rota.store.instances import Instances
from rota.store.releases import Release, Releases

IDLE = 86_400.0  # seconds for which an artifact was of no use before it is removed
NEWEST = 3  # releases that are kept though they never served: they may be about to
SHARE = 7  # nights in which every artifact is read anew once

log = structlog.get_logger("rota.artifacts")


def kept(
    releases: Sequence[Release], current: int | None, running: Collection[int], keep: int
) -> list[Release]:
    """Return those of an app's releases, the newest first, whose artifacts are kept. Pure.

    Only releases that served count towards `keep`: a series of failures drives out
    nothing that one could go back to.
    """
    served = [release for release in releases if release.served]
    now = next((release for release in releases if release.number == current), None)
    before = [
        release
        for release in served
        if now is not None
        and release.number < now.number
        and (release.artifact, release.configuration) != (now.artifact, now.configuration)
    ]
    numbers = {*running, *(release.number for release in (*served[:keep], *before[:1], *releases[:NEWEST]))}
    if now is not None:
        numbers.add(now.number)
    return [release for release in releases if release.number in numbers]


class Retention:
    """Clears one hub's artifact store."""

    def __init__(self, settings: Settings, database: Database) -> None:
        """Keep as many releases as the settings say."""
        self._keep = settings.artifacts.keep_releases
        self._store = ArtifactStore(settings.artifacts_directory)
        self._database = database

    async def clear(self, fence: Fence, idle: float = IDLE) -> int:
        """Remove what is not kept and was of no use for a while; return how many artifacts."""
        wanted = await self.wanted()
        removed = 0
        for artifact in await Artifacts(self._database).all():
            if artifact.hash in wanted:
                continue

            async def work(tx: Transaction, name: str = artifact.hash) -> bool:
                if not await Artifacts.remove(tx, name, idle):
                    return False
                self._store.remove(name)  # before the commit: whoever adds it anew waits, and looks again
                return True

            removed += await self._database.write(work, fence)
        self._store.sweep(IDLE)
        return removed

    async def wanted(self) -> set[str]:
        """Return the artifacts that are kept, and the sources that they were built from."""
        wanted, sources = set[str](), set[int]()
        live = await Instances(self._database).live()
        for app in await Apps(self._database).all():
            running = {copy.release for copy in live if copy.app == app.name}
            releases = await Releases(self._database).of(app.name)
            for release in kept(releases, app.release, running, self._keep):
                wanted.add(release.artifact)
                if release.build is not None:
                    sources.add(release.build)
        builds = Builds(self._database)
        for build in [*await builds.underway(), *[await builds.find(each) for each in sorted(sources)]]:
            if build is not None:
                wanted |= {build.source, *([build.artifact] if build.artifact else [])}
        return wanted

    def damaged(self, night: int) -> list[str]:
        """Read the share of artifacts that is this night's; return those that are not what they were.

        May block for long.
        """
        share = [each for each in self._store.all() if int(each[:8], 16) % SHARE == night % SHARE]
        found = [each for each in share if not self._store.is_whole(each)]
        for artifact in found:
            log.error("an artifact on the disk is damaged: deploy its app anew", artifact=artifact)
        return found
