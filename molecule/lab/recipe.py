"""What the lab's hosts are made of. Pure: lists, and the key that names an image made from them."""

import hashlib
import json

from lab.errors import LabError

# Raise this when images.py bakes differently from the same lists.
VERSION = 1

SUITES = {"trixie": "Debian 13", "bookworm": "Debian 12"}

# A bare Debian server. What the kit is to install is not here.
INSTALLED = (
    "ca-certificates",
    "curl",
    "dbus",
    "iproute2",
    "iputils-ping",
    "kmod",
    "nftables",
    "openssh-server",
    "procps",
    "python3",
    "python3-apt",
    "sudo",
    "systemd",
    "systemd-sysv",
    "tzdata",
)

# In the image's own package archive, so that `apt install` is real without a network.
ARCHIVED = (
    "acl",
    "chrony",
    "haproxy",
    "logrotate",
    "nfs-common",
    "nfs-kernel-server",
    "polkitd",
    "postgresql",
    "python3-packaging",
    "python3-pip",
    "python3-venv",
    "rsync",
    "wireguard-go",
    "wireguard-tools",
)

# In the archive as well, though each excludes something above and so is fetched by itself.
ARCHIVED_APART = ("systemd-timesyncd",)

# An emulated machine: a kernel of its own with WireGuard and NFS, and no systemd.
MACHINE_SUITE = "trixie"
MACHINE_INSTALLED = (
    "busybox-static",
    "iproute2",
    "iputils-ping",
    "kmod",
    "linux-image-cloud-amd64",
    "nfs-common",
    "nfs-kernel-server",
    "procps",
    "python3",
    "wireguard-tools",
)
# What its first process loads, in this order, before it can see a disk or a network.
MACHINE_MODULES = ("failover", "net_failover", "virtio_net", "virtio_blk", "overlay")

# Timers that would wake up in the middle of a scenario.
DISABLED = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer")

# The controller's own packages: whatever makes and drives hosts.
CONTROLLER = (
    "apt",
    "debian-archive-keyring",
    "dpkg-dev",
    "e2fsprogs",
    "iproute2",
    "mmdebstrap",
    "nftables",
    "openssh-client",
    "qemu-system-x86",
    "systemd-container",
    "util-linux",
)


def suite(name: str) -> str:
    """Return the name of a suite, or raise LabError if hosts cannot run it."""
    if name not in SUITES:
        raise LabError(f'"{name}" is no suite of the lab: the suites are {" and ".join(SUITES)}')
    return name


def key(suite: str, architecture: str) -> str:
    """Name the image of a suite for a processor architecture, by a hash of all that it is made from."""
    return _named(suite, [VERSION, suite, architecture, INSTALLED, ARCHIVED, ARCHIVED_APART, DISABLED])


def machine_key(architecture: str) -> str:
    """Name the image of the emulated machines, likewise; raise LabError if there is none to be had."""
    if architecture != "x86_64":
        raise LabError(f"machines are emulated on x86_64 alone, and this is {architecture}: leave them out")
    return _named("vm", [VERSION, MACHINE_SUITE, MACHINE_INSTALLED, MACHINE_MODULES])


def _named(kind: str, made_from: list[object]) -> str:
    digest = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()
    return f"{kind}-{digest[:16]}"
