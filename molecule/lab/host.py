"""A host's life: made, started, stopped, cut off, frozen, and commands run inside it."""

import os
import shutil
import signal
import subprocess
import uuid
from dataclasses import asdict
from pathlib import Path

from lab import cgroups, guest, images, names, nspawn, switch
from lab.commands import program, run, wait_for
from lab.errors import LabError
from lab.places import Places

_BOOT = 120.0  # seconds a host may take to boot, or to power off; a loaded machine needs a tenth of it
_CONSOLE_LINES = 15
_UP = ("running", "degraded", "maintenance")  # what systemd says once it has done all it can
# What a root login on the host would have.
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}


def load(places: Places, lab: str, name: str) -> nspawn.Host:
    """Return the description of a host; LabError if there is no such host."""
    description = places.host(lab, name) / "host.json"
    try:
        return nspawn.Host.from_json(description.read_text())
    except FileNotFoundError as error:
        raise LabError(f"there is no host {name} in lab {lab}: make it with `molecule/labctl add`") from error
    except (ValueError, TypeError, KeyError) as error:
        raise LabError(f"{description} is damaged ({error}): take the lab down and make it anew") from error


def create(places: Places, host: nspawn.Host) -> None:
    """Make a host's disk, cable and description; one that is there stays if it is the same."""
    home = places.host(host.lab, host.name)
    if (home / "host.json").exists():
        have = asdict(load(places, host.lab, host.name))
        differs = [
            f"its {field} is {have[field]}" for field, new in asdict(host).items() if have[field] != new
        ]
        if differs:
            there = f"host {host.name} of lab {host.lab} is there"
            raise LabError(f"{there} and differs, {' and '.join(differs)}: take the lab down first")
    else:
        image = images.ensure(places, host.suite)
        for part in ("upper", "root"):
            (home / part).mkdir(parents=True, exist_ok=True)
        (home / "image").unlink(missing_ok=True)
        (home / "image").symlink_to(image)
        _furnish(home / "upper", host, places.key.with_suffix(".pub").read_text())
        (home / "host.json").write_text(host.to_json())
    switch.connect(host.lab, host.name, host.address)


def _furnish(upper: Path, host: nspawn.Host, public_key: str) -> None:
    """Write what differs from host to host onto its disk."""
    etc, ssh = upper / "etc", upper / "root/.ssh"
    etc.mkdir(exist_ok=True)
    (upper / "root").mkdir(mode=0o700, exist_ok=True)
    ssh.mkdir(mode=0o700, exist_ok=True)
    (ssh / "authorized_keys").write_text(public_key)
    (etc / "hostname").write_text(f"{host.name}\n")
    (etc / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {host.name}\n::1 localhost\n")
    (etc / "machine-id").write_text(f"{uuid.uuid4().hex}\n")  # an empty one would mean a first boot
    if host.cgroup == "v1":
        first = upper / nspawn.FIRST.lstrip("/")
        first.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(__file__).with_name("first.py"), first)
        first.chmod(0o755)


def start(places: Places, host: nspawn.Host) -> None:
    """Power a host on and plug it in; return when it runs, which is before it answers."""
    switch.plug(host.lab, host.name, plugged=True)
    if cgroups.populated(host.lab, host.name):
        return
    cgroups.make(host.lab, host.name, host.cgroup, limits=host.limits)
    home = places.host(host.lab, host.name)
    with (home / "console.log").open("ab") as console:
        carrier = subprocess.Popen(
            guest.start_argv(host.lab, host.name),
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            start_new_session=True,  # it outlives us
        )

    def begun() -> bool:
        return running(host) or carrier.poll() is not None

    if not wait_for(begun, seconds=_BOOT) or carrier.poll() is not None:
        raise LabError(f"host {host.name} of lab {host.lab} does not start:\n{console_end(home)}")


def running(host: nspawn.Host) -> bool:
    """Say whether a host has a PID 1."""
    return cgroups.guest_init(host.lab, host.name) is not None


def console_end(home: Path) -> str:
    """Return the last lines of a host's console."""
    try:
        lines = (home / "console.log").read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return "it has no console yet"
    return "\n".join(lines[-_CONSOLE_LINES:])


def ready(places: Places, host: nspawn.Host) -> None:
    """Wait until a host is up: ssh answers on the lab's network, and no unit has failed."""
    keyscan = ["ssh-keyscan", "-T", "1", "-t", "ed25519", host.ip]
    knock = switch.inside(names.switch_netns(host.lab), keyscan)
    home = places.host(host.lab, host.name)

    def answers() -> bool:
        if not cgroups.populated(host.lab, host.name):
            raise LabError(f"host {host.name} of lab {host.lab} is off:\n{console_end(home)}")
        return "ssh-ed25519" in run(knock, check=False).stdout

    if not wait_for(answers, seconds=_BOOT):
        raise LabError(f"host {host.name} does not answer ssh after {_BOOT:g} s:\n{console_end(home)}")

    def state() -> str:
        return inside(host, ["systemctl", "is-system-running"]).stdout.strip()

    wait_for(lambda: state() in _UP, seconds=_BOOT)
    if (reached := state()) != "running":
        failed = inside(host, ["systemctl", "--failed", "--no-legend", "--plain"]).stdout
        raise LabError(f"host {host.name} of lab {host.lab} came up as {reached or 'unknown'}:\n{failed}")


def stop(host: nspawn.Host) -> None:
    """Power a host off as its own `poweroff` would; no effect if it is off."""
    pid = cgroups.guest_init(host.lab, host.name)
    if pid is None:
        return
    os.kill(pid, signal.SIGRTMIN + 3)
    if not wait_for(lambda: not cgroups.populated(host.lab, host.name), seconds=_BOOT):
        raise LabError(f"host {host.name} of lab {host.lab} does not power off: kill it")


def kill(host: nspawn.Host) -> None:
    """Take a host's power away. Its disk stays; its peers hear nothing, no FIN and no RST."""
    # The cable first: what dies would say good-bye, and the empty namespace would go on answering.
    switch.plug(host.lab, host.name, plugged=False)
    if cgroups.populated(host.lab, host.name):
        cgroups.end(host.lab, host.name)


def freeze(host: nspawn.Host, *, frozen: bool) -> None:
    """Stop every process of a host where it stands, or let them go on; LabError if it is off."""
    if not running(host):
        raise LabError(f"host {host.name} of lab {host.lab} is off: start it")
    cgroups.freeze(host.lab, host.name, frozen=frozen)


def plug(host: nspawn.Host, *, plugged: bool) -> None:
    """Put a host's cable into the switch, or pull it out."""
    switch.plug(host.lab, host.name, plugged=plugged)


def reboot(places: Places, host: nspawn.Host) -> None:
    """Reboot a host from inside and wait until it is ready again."""
    before = cgroups.guest_init(host.lab, host.name)
    inside(host, ["systemctl", "reboot"])

    def again() -> bool:
        return cgroups.guest_init(host.lab, host.name) not in (None, before)

    if not wait_for(again, seconds=_BOOT):
        raise LabError(f"host {host.name} of lab {host.lab} does not come back from a reboot")
    ready(places, host)


def enter_argv(host: nspawn.Host, argv: list[str]) -> list[str]:
    """Return the argv that runs another inside a running host, as root; LabError if it is off."""
    pid = cgroups.guest_init(host.lab, host.name)
    if pid is None:
        raise LabError(f"host {host.name} of lab {host.lab} is off: start it")
    spaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
    return [program("nsenter"), f"--target={pid}", *spaces, "--", *argv]


def inside(host: nspawn.Host, argv: list[str], said: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command inside a running host to its end, whatever its exit status; `said` is its input."""
    return run(enter_argv(host, argv), check=False, env=_ENVIRONMENT, said=said)


def become_inside(host: nspawn.Host, argv: list[str]) -> None:
    """Turn the calling process into a command inside a running host; never returns."""
    entry = enter_argv(host, argv)
    os.execve(entry[0], entry, _ENVIRONMENT)
