"""How a host is booted: the description of a host, and the argv that make it run. Pure."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import names
from lab.errors import LabError

# What `systemd-nspawn --keep-unit` exits with when the guest asks for a reboot.
REBOOT = 133
# PID 1 of a host on cgroup version 1, see first.py.
FIRST = "/usr/local/sbin/lab-first"


@dataclass(frozen=True)
class Host:
    """What a host is, as kept beside its disk."""

    lab: str
    name: str
    address: str  # with the prefix length
    suite: str
    cgroup: str = "v2"  # or v1
    limits: bool = False  # whether those in units take effect
    binds: tuple[str, ...] = ()  # DIRECTORY:PATH-IN-HOST

    def to_json(self) -> str:
        """Return the description as text."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Host":
        """Read a description; ValueError or TypeError if it is none."""
        fields = json.loads(text)
        return cls(**{**fields, "binds": tuple(fields["binds"])})

    @property
    def ip(self) -> str:
        """Return the address alone."""
        return self.address.partition("/")[0]


def check_bind(bind: str) -> str:
    """Return a shared directory as DIRECTORY:PATH-IN-HOST, or raise LabError if it is none."""
    directory, _, path = bind.partition(":")
    if not (directory.startswith("/") and path.startswith("/")) or ":" in path:
        raise LabError(f'"{bind}" shares no directory: give two absolute paths, as in /srv/here:/srv/there')
    if not Path(directory).is_dir():
        raise LabError(f"{directory} cannot be shared: there is no such directory on this machine")
    return bind


def overlay_argv(image: Path, home: Path) -> list[str]:
    """Return the argv that mounts a host's disk over its image.

    ``volatile`` leaves out the sync calls: a disk outlives its host's power loss all the same, since the
    machine beneath stays up, and installing packages takes a fifth less time.
    """
    layers = f"lowerdir={image},upperdir={home / 'upper'},workdir={home / 'work'},volatile"
    return ["mount", "-t", "overlay", "-o", layers, "overlay", str(home / "root")]


def environment(host: Host, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of systemd-nspawn."""
    return {
        "PATH": inherited.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
        "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1" if host.cgroup == "v2" else "0",
        # Without this, network sysctls are read-only in the host.
        "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
    }


def argv(host: Host, home: Path) -> list[str]:
    """Return the argv that boots a host whose disk is mounted at ``home/root``."""
    return [
        "systemd-nspawn",
        "--quiet",
        "--register=no",
        "--keep-unit",
        f"--directory={home / 'root'}",
        f"--machine={names.machine(host.lab, host.name)}",
        f"--hostname={host.name}",
        f"--network-namespace-path=/run/netns/{names.host_netns(host.lab, host.name)}",
        # Without bpf, systemd silently ignores IPAddressDeny= and DevicePolicy=.
        "--capability=CAP_NET_ADMIN,CAP_BPF,CAP_PERFMON",
        "--system-call-filter=bpf",
        "--bind=/dev/net/tun",
        "--bind=/dev/fuse",
        *(f"--bind={bind}" for bind in host.binds),
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--console=pipe",
        *(["--boot"] if host.cgroup == "v2" else ["--kill-signal=SIGRTMIN+3", FIRST]),
    ]
