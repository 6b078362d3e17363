"""Taking a lab down, by what the kernel knows.

Cgroups say which processes are a lab's and namespaces say what its network is. No file of ours is asked, so
this works as well after a run that was killed, or after someone deleted the lab's directory.
"""

import os
import shutil
import signal

from lab import cgroups, names, switch
from lab.commands import wait_for
from lab.errors import LabError
from lab.places import Places

_PATIENCE = 10.0  # seconds for a killed process to be gone


def down(places: Places, lab: str) -> None:
    """Take a lab away: its processes, mounts, cgroups, namespaces and files. No effect if there is none."""
    if not wait_for(lambda: _processes_gone(lab), seconds=_PATIENCE):
        raise LabError(f"something still starts processes in lab {lab}: end it and try again")
    spaces = [space for space in switch.every_netns() if names.is_of_lab(space, lab)]
    # Connections into the lab live in its network, and a shared ssh connection outlives who opened it: left
    # alone, it would hang the next run that uses the same address.
    _end_visitors(spaces)
    for space in spaces:
        switch.delete(space)
    if places.lab(lab).exists():
        shutil.rmtree(places.lab(lab))


def _processes_gone(lab: str) -> bool:
    # A host being started when its starter was killed may enter its cgroup while we look.
    if cgroups.populated(lab):
        cgroups.end(lab)
    return cgroups.remove(lab)


def _end_visitors(spaces: list[str]) -> None:
    def visitors() -> list[int]:
        ours = os.getpid()
        return [pid for space in spaces for pid in switch.processes(space) if pid != ours]

    for pid in visitors():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    if not wait_for(lambda: not visitors(), seconds=_PATIENCE):
        raise LabError(f"processes {visitors()} in the lab's network do not die; try again")


def labs(places: Places) -> list[str]:
    """Return the names of the labs of which anything is there: a network, or files."""
    known = {lab for lab in map(names.lab_of, switch.every_netns()) if lab}
    kept = places.root / "labs"
    return sorted(known | ({path.name for path in kept.iterdir()} if kept.is_dir() else set()))
