"""The cgroups of labs and hosts.

Each host has a cgroup of its own, ``rota-lab.LAB/HOST``, in the machine's cgroup2 hierarchy and, where the
machine has one, in systemd's named version 1 hierarchy. Every process of a host stays in it, so the kernel
can say who they are, kill them at one word, or freeze them. No file of ours remembers a process.

A host on version 1 also has that cgroup in each version 1 controller, below the caller's own, so that limits
on the caller hold for the host too.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

from lab import hierarchies, names
from lab.commands import wait_for
from lab.errors import LabError

# Version 2 keeps processes out of a cgroup that hands controllers on, so the host's own has none. One below
# it is for the process that carries the host, the other for systemd-nspawn and all that runs in the host.
_CARRIER, _MACHINE = "carrier", "machine"
_EMULATOR = "emulator"  # of an emulated machine, which has no more than one process here
_PATIENCE = 10.0  # seconds for the kernel to end what it was told to kill
_TIDYING = 5.0  # seconds for systemd-nspawn to end by itself after its host


def _used(version: str) -> list[hierarchies.Hierarchy]:
    """Return the hierarchies in which a host on cgroup ``v1`` or ``v2`` has a cgroup of its own."""
    every = hierarchies.mounted()
    return every if version == "v1" else [h for h in every if not h.follows_caller]


def make(lab: str, host: str, version: str, *, limits: bool) -> None:
    """Make a host's cgroups; those that are there stay.

    Args:
        lab: the lab's name.
        host: the host's name.
        version: ``v1`` or ``v2``.
        limits: on version 2, hand the machine's controllers on to the host, so that limits take effect.

    """
    for hierarchy in _used(version):
        directory = hierarchy.base / names.cgroup(lab, host)
        for step in (directory.parent, directory):
            step.mkdir(exist_ok=True)
            _inherit_cpuset(step)
    carriers = hierarchies.unified() / names.cgroup(lab, host) / _CARRIER
    carriers.mkdir(exist_ok=True)
    if limits and version == "v2":
        for step in (hierarchies.unified(), carriers.parent.parent, carriers.parent):
            words = " ".join(f"+{controller}" for controller in sorted(hierarchies.LIMITING))
            (step / "cgroup.subtree_control").write_text(words)


def of_carrier(lab: str, host: str, version: str) -> list[Path]:
    """Return where the process that carries a host belongs, if the caller made its cgroups."""
    leaf = hierarchies.unified() / names.cgroup(lab, host) / _CARRIER
    return [leaf, *(h.base / names.cgroup(lab, host) for h in _used(version) if h.version == 1)]


def renew_machine(lab: str, host: str) -> Path:
    """Return an empty cgroup for systemd-nspawn to divide, in place of the one of the last boot."""
    machine = hierarchies.unified() / names.cgroup(lab, host) / _MACHINE
    if not wait_for(lambda: not machine.exists() or _rmdir(machine), seconds=_PATIENCE):
        raise LabError(f"cgroup {machine} cannot be removed: something runs in it")
    machine.mkdir()
    return machine


def make_emulator(lab: str, name: str) -> Path:
    """Make the cgroup of an emulated machine; one that is there stays."""
    leaf = hierarchies.unified() / names.cgroup(lab, name) / _EMULATOR
    leaf.mkdir(parents=True, exist_ok=True)
    return leaf


def _inherit_cpuset(directory: Path) -> None:
    # A version 1 cpuset begins empty, and an empty one admits no process. Elsewhere these files are absent.
    for name in ("cpuset.cpus", "cpuset.mems"):
        here = directory / name
        if here.exists() and not here.read_text().strip():
            here.write_text((directory.parent / name).read_text())


def enter(directories: list[Path]) -> None:
    """Move the calling process into these cgroups; OSError if one of them has gone."""
    for directory in directories:
        (directory / "cgroup.procs").write_text(str(os.getpid()))


def processes(lab: str, host: str = "") -> list[int]:
    """Return the ids of the processes of a host, or of a whole lab."""
    found: list[int] = []
    for directory in _below(hierarchies.unified() / names.cgroup(lab, host)):
        try:
            found += [int(pid) for pid in (directory / "cgroup.procs").read_text().split()]
        except OSError:  # this cgroup went away while we looked
            continue
    return found


def populated(lab: str, host: str = "") -> bool:
    """Say whether any process of a host, or of a whole lab, lives. A zombie does not."""
    try:
        events = (hierarchies.unified() / names.cgroup(lab, host) / "cgroup.events").read_text()
    except OSError:
        return False
    return "populated 1" in events.splitlines()


def freeze(lab: str, host: str, *, frozen: bool) -> None:
    """Stop every process of a host where it stands, or let them all go on; return when it is so."""
    directory = hierarchies.unified() / names.cgroup(lab, host)
    (directory / "cgroup.freeze").write_text("1" if frozen else "0")
    want = f"frozen {int(frozen)}"
    if not wait_for(
        lambda: want in (directory / "cgroup.events").read_text().splitlines(), seconds=_PATIENCE
    ):
        raise LabError(f"host {host} of lab {lab} is not {want.replace(' ', '=')} after {_PATIENCE:g} s")


def guest_init(lab: str, host: str) -> int | None:
    """Return the id, as the machine counts, of the process that is PID 1 in a host; None if it is off."""
    for pid in processes(lab, host):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        if is_guest_init(status):
            return pid
    return None


def is_guest_init(status: str) -> bool:
    """Say whether a /proc/PID/status is that of PID 1 exactly one PID namespace below ours. Pure."""
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return len(ids := line.split()[1:]) == 2 and ids[-1] == "1"  # noqa: PLR2004 - ours and the guest's
    return False


def end(lab: str, host: str = "") -> None:
    """Kill every process of a host, or of a whole lab, and return when none lives.

    PID 1 of each host first, with which the kernel ends all of that host, so that systemd-nspawn outlives it
    by a moment and tidies up what it keeps in /run and /tmp; for that it must not be frozen. A host that is
    just being started gets that far and no further. An emulator has nothing to tidy up.
    """

    def ended() -> bool:
        for name in [host] if host else hosts_of(lab):
            top = hierarchies.unified() / names.cgroup(lab, name)
            if (top / _EMULATOR).is_dir():
                (top / _EMULATOR / "cgroup.kill").write_text("1")
            pid = guest_init(lab, name)
            if pid is not None:
                _kill(pid)
            (top / "cgroup.freeze").write_text("0")
        return not populated(lab, host)

    if wait_for(ended, seconds=_TIDYING):
        return
    (hierarchies.unified() / names.cgroup(lab, host) / "cgroup.kill").write_text("1")
    if not wait_for(lambda: not populated(lab, host), seconds=_PATIENCE):
        left = " ".join(str(pid) for pid in processes(lab, host))
        raise LabError(f"lab {lab}: processes {left} do not die; try again")


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def hosts_of(lab: str) -> list[str]:
    """Return the hosts of a lab that have a cgroup, running or not."""
    top = hierarchies.unified() / names.cgroup(lab)
    return sorted(path.name for path in top.iterdir() if path.is_dir()) if top.is_dir() else []


def remove(lab: str) -> bool:
    """Remove the cgroups of a lab from every hierarchy; False if the kernel still counts a process there."""
    return all(
        _rmdir(top) for hierarchy in hierarchies.mounted() for top in _found(hierarchy, names.cgroup(lab))
    )


def _found(hierarchy: hierarchies.Hierarchy, wanted: str) -> list[Path]:
    """Find a lab's cgroup wherever its creator stood, which need not be where we stand."""
    places = _below(hierarchy.mount) if hierarchy.follows_caller else [hierarchy.mount]
    return [place / wanted for place in places if (place / wanted).is_dir()]


def _rmdir(top: Path) -> bool:
    """Remove a cgroup and those below it; False if the kernel still counts a process there."""
    try:
        for directory in reversed(list(_below(top))):
            directory.rmdir()
    except FileNotFoundError:
        return not top.exists()
    except OSError:
        return False
    return True


def _below(top: Path) -> Iterator[Path]:
    """Yield a cgroup and all those below it, each before its children."""
    for path, _, _ in os.walk(top):
        yield Path(path)
