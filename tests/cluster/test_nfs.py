"""The shared log over NFSv4.2 and kernel WireGuard: locks exclude, and the locks of a lost host become free.

Three machines with kernels of their own; the scenario `nfs` makes them and names their lab in ROTA_LAB. The
tests stand in an order: the later ones lose a machine.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster import machines as lab
from tests.cluster.machines import DIRECTORY, EXPORT, ONE, OPTIONS, SERVER, SOURCE, TWO, Machines, proof
from tests.support.wait import wait_for

pytestmark = pytest.mark.lab
LEASE = 15.0  # seconds, as the role's nfs.conf says
PATIENCE = "--patience=200"


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Machines:
    """Give the three machines, the log mounted on each."""
    made = Machines(os.environ["ROTA_LAB"], tmp_path_factory.mktemp("sent"))
    if made.attempt(SERVER, "mountpoint", "--quiet", DIRECTORY).returncode:
        lab.set_up(made)
    return made


class Pair:
    """A proof under way on two machines."""

    def __init__(self, machines: Machines, holder: str, contender: str, run: str, *more: str) -> None:
        """Start both sides."""
        about = [f"--run={run}", PATIENCE, *more]
        self.run = run
        # Each run its own, or an earlier one's result would be taken for this one's.
        self.result = f"/root/hold-{run}.json"
        self.hold = machines.begin(holder, *proof("hold", f"--result={self.result}", *about))
        self.contend = machines.begin(contender, *proof("contend", *about))

    def await_refusal(self) -> None:
        """Wait until the contender has found the lock held."""
        assert self.contend.stderr
        for line in self.contend.stderr:
            if "contend: 1.refused" in line:
                return
        raise AssertionError(f"the lock was never refused: {self.contend.communicate()}")

    def outcome(self) -> dict[str, Any]:
        """Return what the contender saw, at its end."""
        said, wrong = self.contend.communicate(timeout=lab.LONGEST)
        if self.contend.returncode:
            self.hold.kill()
            raise AssertionError(f"{said}{wrong}the holder's side: {self.hold.communicate()}")
        return dict(json.loads(said))

    def end(self) -> None:
        """End both programs here, wherever they got to."""
        for process in (self.hold, self.contend):
            process.kill()
            process.communicate()


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    """Give a list for the proofs that a test starts, which are ended with it."""
    started: list[Pair] = []
    yield started
    for pair in started:
        pair.end()


def free_after(outcome: dict[str, Any]) -> float:
    """Return the seconds after which a lost holder's lock was free."""
    (seen,) = outcome["rounds"]
    return float(seen["free_after"])


def test_every_machine_mounts_the_export_as_the_role_says(machines: Machines) -> None:
    def check(name: str) -> None:
        seen = machines.inspect(name)
        assert seen["refusals"] == []
        assert (seen["mount"]["kind"], seen["mount"]["source"]) == ("nfs4", SOURCE)
        for options, status in ((OPTIONS, 0), ("vers=4.1", 1)):
            intact = proof("intact", f"--source={SOURCE}", f"--options={options}")
            assert machines.attempt(name, *intact).returncode == status

    lab.on_all(check)


def test_the_export_is_for_the_members_alone_and_at_the_private_address_alone(machines: Machines) -> None:
    listening = machines.run(
        SERVER, "ss", "--listening", "--tcp", "--numeric", "--no-header", "sport", "=", ":2049"
    )
    assert [line.split()[3] for line in listening.splitlines()] == [f"{lab.private(SERVER)}:2049"]
    assert machines.run(SERVER, "cat", "/proc/fs/nfsd/versions").split() == [
        "-3",
        "+4",
        "-4.0",
        "-4.1",
        "+4.2",
    ]
    # Root of another host is nobody here.
    assert machines.attempt(ONE, "touch", f"{DIRECTORY}/root").returncode != 0


@pytest.mark.parametrize("holder", [ONE, SERVER])
def test_flock_excludes_both_ways_and_ends_with_its_holder(
    machines: Machines, pairs: list[Pair], holder: str
) -> None:
    pairs.append(Pair(machines, holder, TWO, f"proof-{holder}"))
    outcome = pairs[0].outcome()
    assert outcome["proved"]
    assert [seen["holder"] for seen in outcome["rounds"]] == [holder, TWO]
    assert all(seen["free_after"] < LEASE for seen in outcome["rounds"])
    print(f"\nholder killed: {outcome['rounds']}")


def test_flock_on_the_export_itself_would_not_conflict(machines: Machines, pairs: list[Pair]) -> None:
    """This is why the exporting host mounts its own export like every host."""
    pairs.append(Pair(machines, ONE, TWO, "export", "--stay"))
    pairs[0].await_refusal()
    held = ".rota-proof/export/1.lock"
    through_mount = machines.attempt(
        SERVER,
        "setpriv",
        f"--reuid={lab.USER}",
        "--clear-groups",
        "flock",
        "-n",
        f"{DIRECTORY}/{held}",
        "true",
    )
    assert through_mount.returncode == 1
    assert machines.attempt(SERVER, "flock", "-n", f"{EXPORT}/{held}", "true").returncode == 0
    machines.run(ONE, "pkill", "-KILL", "-f", "rota-flock-proof.py grip")
    assert pairs[0].outcome()["proved"]


def test_the_lock_of_a_host_that_is_cut_off_is_free_after_the_lease(
    machines: Machines, pairs: list[Pair]
) -> None:
    pairs.append(Pair(machines, ONE, TWO, "cut", "--stay"))
    pairs[0].await_refusal()
    machines.labctl("cut", ONE)
    seconds = free_after(pairs[0].outcome())
    print(f"\ncut off: free after {seconds} s")
    assert LEASE / 2 < seconds < 4 * LEASE
    machines.labctl("heal", ONE)
    # The old holder learns of it by its first write, and what the next holder wrote stands.
    lost = ("grep", "-q", '"lost"', pairs[0].result)
    wait_for(lambda: machines.attempt(ONE, *lost).returncode == 0, lab.LONGEST)
    result = json.loads(machines.run(ONE, "cat", pairs[0].result))
    print(f"the old holder: {result['rounds']}")
    assert result["rounds"] == [{"lost": "lost Input/output error"}]


def test_the_lock_of_a_host_that_lost_its_power_is_free_after_the_lease(
    machines: Machines, pairs: list[Pair]
) -> None:
    pairs.append(Pair(machines, ONE, TWO, "power", "--stay"))
    pairs[0].await_refusal()
    machines.labctl("kill", ONE)
    seconds = free_after(pairs[0].outcome())
    print(f"\npowered off: free after {seconds} s")
    assert LEASE / 2 < seconds < 4 * LEASE
