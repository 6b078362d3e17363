"""The cgroup hierarchies of the machine: version 2, version 1, or both as they come."""

from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError

WANTED = ("v2", "v1", "limits")
LIMITING = {"memory", "pids", "cpu"}  # the controllers behind MemoryMax=, TasksMax= and CPUQuota=


@dataclass(frozen=True)
class Hierarchy:
    """One mounted cgroup hierarchy."""

    mount: Path
    version: int
    controllers: tuple[str, ...]
    own: str  # the caller's cgroup in it, beginning with "/"

    @property
    def follows_caller(self) -> bool:
        """Say whether a lab's cgroups lie below its creator's own: only where that may carry limits."""
        return self.version == 1 and "name=systemd" not in self.controllers

    @property
    def base(self) -> Path:
        """Return where the cgroups of a lab that we make begin."""
        return self.mount / self.own.lstrip("/") if self.follows_caller else self.mount


def parse(mountinfo: str, own: str) -> list[Hierarchy]:
    """Return the hierarchies described by the texts of /proc/self/mountinfo and /proc/self/cgroup. Pure."""
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in own.splitlines())}
    found: dict[Path, Hierarchy] = {}
    for line in mountinfo.splitlines():
        fields, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ", 2)
        mount = Path(fields.split(" ")[4])
        if kind == "cgroup2":
            found.setdefault(mount, Hierarchy(mount, 2, (), paths.get("", "/")))
        elif kind == "cgroup":
            for controllers, path in paths.items():
                listed = tuple(controllers.split(","))
                if controllers and set(listed) <= set(options.split(",")):
                    found.setdefault(mount, Hierarchy(mount, 1, listed, path))
    return list(found.values())


def mounted() -> list[Hierarchy]:
    """Return the machine's hierarchies."""
    return parse(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())


def unified() -> Path:
    """Return where the cgroup2 hierarchy is mounted; raise LabError if it is not."""
    for hierarchy in mounted():
        if hierarchy.version == 2:  # noqa: PLR2004 - cgroup2
            return hierarchy.mount
    raise LabError("this machine mounts no cgroup2 hierarchy, which the lab needs: mount one")


def choose(wanted: str, there: list[Hierarchy], controllers_v2: list[str]) -> str:
    """Return the cgroup version, ``v1`` or ``v2``, that a host is to have. Pure.

    Args:
        wanted: ``v1``, ``v2``, or ``limits``: whichever makes the limits in units take effect here.
        there: the machine's hierarchies.
        controllers_v2: the controllers of its cgroup2 hierarchy.

    Raises:
        LabError: if this machine cannot have it, or there is no such version.

    """
    limits_v1 = {c for hierarchy in there for c in hierarchy.controllers} >= LIMITING
    if wanted == "v2" or (wanted == "v1" and limits_v1):
        return wanted
    if wanted == "limits" and (limits_v1 or set(controllers_v2) >= LIMITING):
        return "v1" if limits_v1 else "v2"
    if wanted in WANTED:
        raise LabError(
            f"this machine cannot run a host with cgroup {wanted}: {', '.join(sorted(LIMITING))} "
            f"are {'in version 2 or absent' if wanted == 'v1' else 'absent'}"
        )
    raise LabError(f'"{wanted}" is no cgroup version: use {", ".join(WANTED)}')


def chosen(wanted: str) -> str:
    """Return the cgroup version that a host is to have on this machine, as `choose` does."""
    return choose(wanted, mounted(), (unified() / "cgroup.controllers").read_text().split())
