"""Taking a lab away leaves nothing, in whatever state it is."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lab import traces
from tests.lab.labctl import PROGRAM, SWITCH, Labctl

from lab import cgroups, names, switch
from lab.commands import wait_for
from lab.places import Places

ADDRESS = "10.78.0.11"
KINDS = {"cgroups", "files", "mounts", "namespaces", "nspawn", "processes"}


@pytest.fixture
def lab(request: pytest.FixtureRequest, new_lab: Callable[[str], Labctl]) -> Labctl:
    made = new_lab(f"{abs(hash(request.node.name)) % 10**6}")
    made("up", SWITCH)
    return made


def test_a_running_lab_is_seen_in_every_way_and_then_in_none(places: Places, lab: Labctl) -> None:
    lab("add", "h1", ADDRESS)
    assert set(traces.of_lab(places, lab.lab)) == KINDS
    lab("down")
    assert traces.of_lab(places, lab.lab) == {}
    lab("down")


def test_nothing_is_left_when_the_files_are_gone(places: Places, lab: Labctl) -> None:
    lab("add", "h1", ADDRESS)
    shutil.rmtree(places.lab(lab.lab))
    lab("down")
    assert traces.of_lab(places, lab.lab) == {}


@pytest.mark.parametrize(
    ("state", "options"), [("freeze", []), ("kill", []), ("cut", []), ("freeze", ["--cgroup=v1"])]
)
def test_nothing_is_left_of_a_host_in_trouble(
    places: Places, lab: Labctl, state: str, options: list[str]
) -> None:
    before = traces.temporary()
    lab("add", "h1", ADDRESS, *options)
    lab(state, "h1")
    lab("down")
    assert traces.of_lab(places, lab.lab) == {}
    assert set(traces.temporary()) <= set(before)


MOMENTS: dict[str, Callable[[str], bool]] = {
    "its namespace is there": lambda lab: switch.exists(names.host_netns(lab, "h1")),
    "its carrier runs": cgroups.populated,
    "its PID 1 runs": lambda lab: cgroups.guest_init(lab, "h1") is not None,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_is_left_when_the_maker_was_killed_once(places: Places, lab: Labctl, moment: str) -> None:
    with subprocess.Popen(lab.argv("add", "h1", ADDRESS), stdin=subprocess.DEVNULL) as maker:
        assert wait_for(lambda: MOMENTS[moment](lab.lab), seconds=60)
        maker.kill()
    assert maker.returncode == -signal.SIGKILL
    assert traces.of_lab(places, lab.lab)
    lab("down")
    assert traces.of_lab(places, lab.lab) == {}


def test_a_shared_ssh_connection_ends_with_its_lab(places: Places, lab: Labctl) -> None:
    lab("add", "h1", ADDRESS)
    socket = places.control(lab.lab) / "master"
    ssh = [str(PROGRAM.with_name("labssh")), "-F", "none", "-n", "-i", str(places.key)]
    options = {
        "ControlMaster": "auto",
        "ControlPath": str(socket),
        "ControlPersist": "600",
        "LogLevel": "ERROR",
        "StrictHostKeyChecking": "no",
        "UserKnownHostsFile": "/dev/null",
    }
    words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    subprocess.run(
        [*ssh, *words, f"root@{ADDRESS}", "true"],
        env={**os.environ, "ROTA_LAB": lab.lab},
        check=True,
        stderr=subprocess.DEVNULL,  # the master keeps it open
    )
    assert socket.is_socket()
    masters = switch.processes(names.switch_netns(lab.lab))
    assert masters
    lab("down")
    assert not any(Path(f"/proc/{pid}/ns/net").exists() for pid in masters)
    assert traces.of_lab(places, lab.lab) == {}


def test_a_lab_made_later_does_not_hold_an_earlier_one(
    places: Places, lab: Labctl, new_lab: Callable[[str], Labctl]
) -> None:
    lab("add", "h1", ADDRESS)
    later = new_lab("later")
    later("up", SWITCH)
    later("add", "h1", ADDRESS)
    carrier = Path(f"/proc/{cgroups.processes(later.lab, 'h1')[0]}/mountinfo")
    assert names.host_netns(lab.lab, "h1") in carrier.read_text()
    lab("down")
    assert names.host_netns(lab.lab, "h1") not in carrier.read_text()
    later("down")
    assert traces.of_lab(places, later.lab) == {}
