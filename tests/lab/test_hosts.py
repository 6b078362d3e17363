"""What a host is and what can be done to it: one Debian 13 host beside a Debian 12 host."""

import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable

import pytest
from tests.lab.labctl import SWITCH, Labctl

from lab import recipe
from lab.commands import wait_for

ONE, TWO = "10.78.0.11", "10.78.0.12"
# Holds a connection open over what happens, and says what became of it and of a new one.
WATCHER = """
import socket, sys
held = socket.create_connection((sys.argv[1], 22), timeout=5)
assert held.recv(4) == b"SSH-"
while len(held.recv(4096)) == 4096: pass
held.settimeout(1)
print("held", flush=True)
sys.stdin.readline()
def outcome(attempt):
    try:
        return f"answer {attempt()!r}"
    except OSError as error:
        return type(error).__name__
print(outcome(lambda: held.recv(1)))
print(outcome(lambda: socket.create_connection((sys.argv[1], 22), timeout=1)))
"""


@pytest.fixture(scope="module")
def lab(new_lab: Callable[[str], Labctl], tmp_path_factory: pytest.TempPathFactory) -> Labctl:
    made = new_lab("")
    made("up", SWITCH)
    shared = tmp_path_factory.mktemp("shared")
    made("add", "one", ONE, f"--bind={shared}:/srv/shared")
    made("add", "two", TWO, "--suite=bookworm", f"--bind={shared}:/srv/shared")
    return made


def test_two_debians_stand_side_by_side_and_reach_each_other(lab: Labctl) -> None:
    assert "VERSION_CODENAME=trixie" in lab.inside("one", "cat", "/etc/os-release")
    assert "VERSION_CODENAME=bookworm" in lab.inside("two", "cat", "/etc/os-release")
    assert lab.inside("one", "hostname") == "one"
    assert lab.inside("one", "ping", "-n", "-q", "-c", "1", "-W", "2", TWO)
    assert lab.inside("two", "cat", "/etc/machine-id") != lab.inside("one", "cat", "/etc/machine-id")


def test_systemd_is_up_with_no_failed_unit(lab: Labctl) -> None:
    for host in ("one", "two"):
        assert lab.inside(host, "systemctl", "is-system-running") == "running"
        assert lab.inside(host, "systemctl", "--failed", "--no-legend") == ""


def test_there_is_no_way_out(lab: Labctl) -> None:
    for host, address in (("one", ONE), ("two", TWO)):
        route = lab.inside(host, "ip", "route", "show")
        assert route == f"10.78.0.0/24 dev eth0 proto kernel scope link src {address}"
        assert lab.attempt("exec", host, "--", "ip", "route", "get", "192.0.2.1").returncode != 0


def test_a_shared_directory_and_its_locks_are_one_for_both_hosts(lab: Labctl) -> None:
    lab.inside("one", "touch", "/srv/shared/lock")
    hold = ("flock", "--nonblock", "/srv/shared/lock")
    lab.inside("two", "systemd-run", "--quiet", "--unit=holder", *hold, "sleep", "600")
    assert wait_for(lambda: lab.attempt("exec", "one", "--", *hold, "true").returncode == 1, seconds=30)
    lab.inside("two", "systemctl", "stop", "holder")
    lab.inside("one", *hold, "true")


def test_making_another_host_of_the_same_name_is_refused(lab: Labctl) -> None:
    refused = lab.attempt("add", "one", "10.78.0.99")
    assert refused.returncode == 1
    assert "its address is 10.78.0.11/24" in refused.stderr
    assert "take the lab down first" in refused.stderr


@pytest.mark.parametrize("host", ["one", "two"])
def test_packages_of_the_archive_can_be_installed_and_no_others(lab: Labctl, host: str) -> None:
    lab.inside(host, "apt-get", "--quiet=2", "update")
    plan = lab.inside(host, "apt-get", "--simulate", "install", *recipe.ARCHIVED)
    assert {package for package in recipe.ARCHIVED if f"Inst {package} (" not in plan} == set()
    for alone in recipe.ARCHIVED_APART:
        assert f"Inst {alone} (" in lab.inside(host, "apt-get", "--simulate", "install", alone)
    lab.inside(host, "apt-get", "--quiet=2", "--yes", "install", "acl")
    lab.inside(host, "getfacl", "/")
    assert lab.attempt("exec", host, "--", "apt-get", "install", "cowsay").returncode == 100


@pytest.mark.parametrize("host", ["one", "two"])
def test_a_reboot_keeps_the_disk_and_gives_a_new_boot(lab: Labctl, host: str) -> None:
    boot = lab.inside(host, "cat", "/proc/1/environ", "/proc/sys/kernel/random/boot_id")
    before = lab("pid", host)
    lab.inside(host, "touch", "/var/lib/kept", "/run/gone")
    lab("reboot", host)
    assert lab("pid", host) != before
    assert lab.inside(host, "cat", "/proc/1/environ", "/proc/sys/kernel/random/boot_id") != boot
    lab.inside(host, "test", "-e", "/var/lib/kept", "-a", "!", "-e", "/run/gone")


def test_a_stopped_host_is_off_until_it_is_started(lab: Labctl) -> None:
    lab("stop", "one")
    lab("stop", "one")
    refused = lab.attempt("exec", "one", "--", "true")
    assert refused.returncode == 1
    assert "is off: start it" in refused.stderr
    lab("start", "one")
    lab("ready", "one")


def test_a_port_here_leads_to_a_host(lab: Labctl) -> None:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        port = opened.getsockname()[1]
    serve = ("python3", "-m", "http.server", "--bind=127.0.0.1", "--directory=/etc", str(port))
    lab.inside("two", "systemd-run", "--quiet", "--unit=page", *serve)

    def fetched() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/hostname", timeout=5) as page:
                return page.read() == b"two\n"  # type: ignore[no-any-return]
        except OSError:
            return False

    with subprocess.Popen(
        lab.argv("forward", "two", str(port)), stdout=subprocess.PIPE, text=True
    ) as forwarding:
        try:
            assert wait_for(fetched, seconds=30)
            taken = lab.attempt("forward", "two", str(port))
            assert taken.returncode == 1
            assert f"port {port} of this machine cannot be opened" in taken.stderr
            forwarding.send_signal(signal.SIGINT)
            assert forwarding.wait(timeout=10) == 0
        finally:
            # A failure ends here as well: one who was started without SIGINT would be waited for for ever.
            forwarding.kill()
    assert not fetched()


def test_a_frozen_host_does_nothing_until_it_thaws(lab: Labctl) -> None:
    lab("freeze", "one")
    assert not lab.answers_ssh(ONE)
    lab("thaw", "one")
    assert lab.answers_ssh(ONE)


def test_a_pulled_cable_cuts_one_host_off(lab: Labctl) -> None:
    lab("cut", "one")
    assert not lab.answers_ssh(ONE)
    assert lab.answers_ssh(TWO)
    lab("heal", "one")
    assert lab.answers_ssh(ONE)


def test_a_host_without_power_is_silent(lab: Labctl) -> None:
    with subprocess.Popen(
        lab.argv("net", "--", sys.executable, "-c", WATCHER, ONE),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as watcher:
        assert watcher.stdout
        assert watcher.stdout.readline() == "held\n"
        lab.inside("one", "touch", "/var/lib/survives")
        lab("kill", "one")
        said, _ = watcher.communicate("now\n", timeout=30)
    held, new = said.split()
    assert held == "TimeoutError"  # neither an end nor a reset
    assert new in ("TimeoutError", "OSError")  # OSError: no route to host; not refused by a live kernel
    lab("start", "one")
    lab("ready", "one")
    lab.inside("one", "test", "-e", "/var/lib/survives")
