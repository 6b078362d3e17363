"""Which file systems may carry the log: those whose locks hold between all who share them."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rota.errors import ConfigurationError

MOUNTS = Path("/proc/self/mountinfo")
RECOVER = Path("/sys/module/nfs/parameters/recover_lost_locks")

_BAD_OPTIONS = {
    **dict.fromkeys(
        ("nolock", "local_lock=all", "local_lock=flock", "local_lock=posix"),
        "its locks hold on one host alone",
    ),
    "nocto": "hosts do not see each other's writes",
    **dict.fromkeys(("soft", "softerr"), "an outage cuts writes off"),
}


@dataclass(frozen=True)
class Mount:
    """The mount that a path lies on."""

    point: str
    kind: str
    options: frozenset[str]

    @property
    def shared(self) -> bool:
        """Whether other hosts may write to it too."""
        return self.kind in ("nfs", "nfs4")


def mount_of(path: Path, mountinfo: str) -> Mount:
    """Return the mount of an absolute, resolved path, from the text of /proc/self/mountinfo."""
    found = Mount("/", "unknown", frozenset())
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if len(fields) < 6 or len(rest) < 3:  # noqa: PLR2004 - as proc(5) has them
            continue
        point = _unescaped(fields[4])
        # of two mounts on one point the later covers the earlier
        if PurePosixPath(path).is_relative_to(point) and len(point) >= len(found.point):
            found = Mount(point, rest[0], frozenset(fields[5].split(",")) | frozenset(rest[2].split(",")))
    return found


def problem(mount: Mount, recover_lost_locks: str) -> str | None:
    """Return why the log may not lie on a mount, and what to do; None when it may.

    `recover_lost_locks` is the text of the NFS client's parameter, empty where
    there is none.
    """
    if mount.kind.startswith("fuse") or mount.kind == "9p":
        return f"is {mount.kind}, whose locks may hold on one host alone: use a local directory, or NFS 4.2"
    if not mount.shared:
        return None
    if mount.kind == "nfs" or "vers=3" in mount.options:
        return "is NFS of an old version: mount it with vers=4.2"
    for option in sorted(mount.options & _BAD_OPTIONS.keys()):
        return f"is mounted with {option}, so that {_BAD_OPTIONS[option]}: mount it without"
    if recover_lost_locks.strip() in ("Y", "1"):
        return (
            "is NFS, and this host's client takes lost locks back unasked: "
            "set nfs.recover_lost_locks=0 (modprobe.d), and mount it anew"
        )
    return None


def check_mount(directory: Path) -> Mount:
    """Return the mount that carries the log. Raises ConfigurationError where it must not."""
    mount = mount_of(directory.resolve(), MOUNTS.read_text(encoding="utf-8", errors="surrogateescape"))
    recover = RECOVER.read_text(encoding="ascii") if RECOVER.exists() else ""
    reason = problem(mount, recover)
    if reason:
        raise ConfigurationError(f"tlog.directory: {directory} {reason}")
    return mount


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
