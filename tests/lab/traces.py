"""What a lab leaves to be seen on the machine, asked of the kernel and the disk and not of the lab's code."""

import os
import re
from pathlib import Path

from lab.places import Places


def of_lab(places: Places, lab: str) -> dict[str, list[str]]:
    """Return what is there of a lab, by kind; kinds of which nothing is there are left out."""
    files = places.root / "labs" / lab
    mark = re.compile(rf"rota-lab\.{lab}(?![a-z0-9-])|{re.escape(str(files))}/|=?\b{lab}\.[a-z]")
    found = {
        "namespaces": [name for name in _names(Path("/run/netns")) if mark.search(name)],
        "mounts": _mounts(mark),
        "cgroups": [path for path, _, _ in os.walk("/sys/fs/cgroup") if path.endswith(f"/rota-lab.{lab}")],
        "processes": _processes(lab, mark, f"upperdir={files}/"),
        "files": [str(files)] if files.exists() else [],
        "nspawn": [name for name in _names(Path("/run/systemd/nspawn/propagate")) if mark.search(name)],
    }
    return {kind: seen for kind, seen in found.items() if seen}


def temporary() -> list[str]:
    """Return the directories that systemd-nspawn makes for the time that it runs."""
    return [name for name in _names(Path("/tmp")) if name.startswith("nspawn-")]  # noqa: S108 - where it does


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # the process ended while we looked
        return ""


def _others() -> list[Path]:
    """Return every process but ours, as its directory in /proc."""
    numbers = (path for path in Path("/proc").iterdir() if path.name.isdigit())
    return [path for path in numbers if path.name != str(os.getpid())]


def _mounts(mark: re.Pattern[str]) -> list[str]:
    """Return the mounts of a lab in whichever mount namespace."""
    lines = {line for process in _others() for line in _read(process / "mountinfo").splitlines()}
    return sorted({line.split()[4] for line in lines if mark.search(line)})


def _processes(lab: str, mark: re.Pattern[str], disk: str) -> list[str]:
    """Return the processes that were started for a lab or that see a disk of it; a zombie is none."""
    seen = []
    for process in _others():
        words = _read(process / "cmdline").split("\0")
        for_lab = lab in words or any(mark.search(word) for word in words)
        zombie = _read(process / "stat").rpartition(")")[2].split()[:1] == ["Z"]
        if not zombie and (for_lab or disk in _read(process / "mountinfo")):
            seen.append(f"{process.name} {' '.join(words)}")
    return seen
