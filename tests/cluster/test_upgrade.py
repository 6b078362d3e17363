"""A rolling upgrade to a second build and back fails no request; one that goes wrong stops at its first host.

The scenario has made the builds: directories that hold a source each, below $ROTA_BUILDS. While the playbook
runs, clients on the lab's network ask the hub's own name through the proxy.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cluster.client import STREAMS, Tally
from tests.cluster.cluster import Cluster, unsettled
from tests.cluster.inventory import ROOT, inventories
from tests.support.wait import wait_for

import rota

FIRST, SECOND, BROKEN = "99.0.1", "99.0.2", "99.0.3+broken"  # the versions of the scenario's builds
UPGRADE = 420.0  # seconds: past that something hangs
PATIENCE = 5  # seconds that streams have to end by themselves, which they never do
UNHEALTHY = 10  # seconds that a broken build has to become healthy


@contextmanager
def asking(cluster: Cluster) -> Iterator[Tally]:
    """Keep clients asking for the length of the block; the tally is complete, and printed, at its end."""
    name = cluster.inventory.variables["haproxy_hub_name"]
    tally = Tally()
    with cluster.meanwhile("tests.cluster.client", cluster.inventory.primary.address, name) as said:
        yield tally
    vars(tally).update(vars(Tally.from_json(said[0])))
    print(f"\n{tally.summary()}")


def upgrade(log: Path, build: str = "", **variables: object) -> bool:
    """Run the playbook for a build of the scenario's, or for the checkout; return whether it succeeded."""
    given = {"rota_cache": str(ROOT / ".cache" / "wheelhouse"), "upgrade_patience": PATIENCE, **variables}
    if build:
        given["rota_source"] = str(Path(os.environ["ROTA_BUILDS"]) / build)
    argv = [
        str(Path(sys.executable).with_name("ansible-playbook")),
        *(f"--inventory={path}" for path in inventories()),
        f"--extra-vars={json.dumps(given)}",
        "playbooks/upgrade.yml",
    ]
    # A file, not a pipe: Ansible refuses one that does not block, as ssh leaves it.
    with log.open("ab") as out:
        done = subprocess.run(
            argv,
            check=False,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            timeout=UPGRADE,
        )
    return done.returncode == 0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Give the file that the playbook's output goes to."""
    return tmp_path / "log"


def versions(cluster: Cluster) -> set[str]:
    """Return the versions that run, once every process is well."""
    wait_for(lambda: not unsettled(cluster.health()), within=30)
    return {process["version"] for process in cluster.health().values()}


def test_an_upgrade_and_the_way_back_fail_no_request(cluster: Cluster, log: Path) -> None:
    assert versions(cluster) == {FIRST}
    with asking(cluster) as tally:
        assert upgrade(log, SECOND), log.read_text()
        assert versions(cluster) == {SECOND}
        assert upgrade(log, FIRST), log.read_text()
    assert versions(cluster) == {FIRST}
    assert tally.failed == []
    assert tally.cut == []
    assert tally.told >= 2 * STREAMS, "not every stream was told to reconnect, each time"
    web = [host.name for host in cluster.inventory.hosts.values() if host.web]
    assert sorted(tally.answered_by) == sorted(
        f"{name} {version}" for name in web for version in (FIRST, SECOND)
    )
    assert all(count.answered for count in tally.counts.values())


def test_a_build_that_does_not_become_healthy_goes_no_further(cluster: Cluster, log: Path) -> None:
    timeouts = {"web_start_timeout": UNHEALTHY, "worker_start_timeout": UNHEALTHY}
    with asking(cluster) as tally:
        assert not upgrade(log, BROKEN, **timeouts), log.read_text()
        struck = {name for name, process in cluster.health().items() if process.get("version") != FIRST}
    assert len({name.partition("/")[0] for name in struck}) == 1, struck
    assert tally.failed == []
    assert not [who for who in tally.answered_by if who.endswith(BROKEN)]


def test_the_next_upgrade_makes_the_cluster_whole_with_the_program_itself(
    cluster: Cluster, log: Path
) -> None:
    assert upgrade(log), log.read_text()
    assert versions(cluster) == {rota.__version__}
