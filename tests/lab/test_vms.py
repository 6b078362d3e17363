"""What an emulated machine is, and what can be done to it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lab import traces
from tests.lab.labctl import PROGRAM, SWITCH, Labctl

from lab.commands import run
from lab.places import Places


class Machine:
    """One emulated machine of a lab."""

    def __init__(self, lab: Labctl, name: str) -> None:
        self.lab, self.name = lab, name

    def argv(self, verb: str, *words: str) -> list[str]:
        return [str(PROGRAM), "vm", verb, self.lab.lab, self.name, *words]

    def __call__(self, verb: str, *words: str) -> str:
        """Do something to it that must succeed."""
        return run(self.argv(verb, *words)).stdout.strip()

    def inside(self, *command: str) -> str:
        return self("exec", "--", *command)


@pytest.fixture(scope="module")
def machine(new_lab: Callable[[str], Labctl]) -> Machine:
    lab = new_lab("")
    lab("up", SWITCH)
    made = Machine(lab, "n1")
    made("add", "10.78.0.21")
    made("ready")
    return made


def test_it_has_a_kernel_of_its_own_with_wireguard_and_nfs(machine: Machine) -> None:
    assert machine.inside("uname", "-r") != Path("/proc/sys/kernel/osrelease").read_text().strip()
    assert machine.inside("hostname") == "n1"
    for module in ("wireguard", "nfs", "nfsd"):
        machine.inside("modprobe", module)


def test_a_command_says_what_it_says_and_ends_as_it_ends(machine: Machine, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_text("ünï\nline\n")
    words = ["vm", "exec", f"--input={given}", machine.lab.lab, machine.name, "--", "cat"]
    assert run([str(PROGRAM), *words]).stdout == "ünï\nline\n"
    wrong = run(machine.argv("exec", "--", "ls", "/no/such"), check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "No such file" in wrong.stderr
    assert run(machine.argv("exec", "--", "no-such-program"), check=False).returncode == 127
    assert run(
        machine.argv("exec", "--", "timeout", "-s", "KILL", "0.1", "sleep", "9"), check=False
    ).returncode


def test_it_stands_beside_hosts_and_is_listed(machine: Machine) -> None:
    assert machine.inside("ip", "route", "show").startswith("10.78.0.0/24 dev eth0")
    assert run([str(PROGRAM), "vm", "list", machine.lab.lab]).stdout.split() == ["n1", "10.78.0.21/24", "on"]
    other = run(machine.argv("add", "10.78.0.22"), check=False)
    assert "n1 is there with 10.78.0.21/24" in other.stderr
    machine("add", "10.78.0.21")


def test_a_cable_is_pulled_and_plugged_in_again(machine: Machine) -> None:
    ping = ["net", machine.lab.lab, "--", "ping", "-n", "-q", "-c", "1", "-W", "2", "10.78.0.21"]
    machine("cut")
    assert run([str(PROGRAM), *ping], check=False).returncode != 0
    machine("heal")
    machine("ready")
    assert machine.inside("true") == ""


def test_power_loss_keeps_srv_and_down_leaves_nothing(machine: Machine, places: Places) -> None:
    machine.inside("touch", "/srv/kept", "/root/lost")
    machine.inside("sync")
    machine("kill")
    off = run(machine.argv("exec", "--", "true"), check=False)
    assert "is off: start it" in off.stderr
    machine("start")
    machine("ready")
    assert machine.inside("ls", "/srv/kept") == "/srv/kept"
    assert run(machine.argv("exec", "--", "ls", "/root/lost"), check=False).returncode == 2
    machine.lab("down")
    assert traces.of_lab(places, machine.lab.lab) == {}
