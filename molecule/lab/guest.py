"""The process that carries a running host: it holds the host's mounts, and boots it again after a reboot.

It is started twice over: first to enter the host's cgroups, then, through unshare, in a mount namespace of
its own. Whatever it mounts goes when it goes. It makes neither the host's cgroups nor its home, so that one
started just before its lab is taken down finds nothing to stand on and ends.
"""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from lab import cgroups, nspawn
from lab.commands import program, run

LABCTL = Path(__file__).resolve().parents[1] / "labctl"


def start_argv(lab: str, host: str) -> list[str]:
    """Return the argv of the process that is to carry a host."""
    return [sys.executable, str(LABCTL), "carry", lab, host]


def carry(host: nspawn.Host, directories: list[Path]) -> None:
    """Enter the host's cgroups, then go on in a mount namespace of our own; never returns."""
    cgroups.enter(directories)
    inner = [sys.executable, str(LABCTL), "carry", "--mounted", host.lab, host.name]
    os.execv(program("unshare"), ["unshare", "--mount", "--propagation=private", "--", *inner])


def boot(host: nspawn.Host, home: Path) -> int:
    """Mount the disk and run the host until it is powered off; return systemd-nspawn's exit status."""
    shutil.rmtree(home / "work", ignore_errors=True)  # what a volatile mount left would forbid the next
    (home / "work").mkdir()
    run(nspawn.overlay_argv((home / "image").resolve(), home))
    argv = nspawn.argv(host, home)
    status = nspawn.REBOOT
    while status == nspawn.REBOOT:
        machine = cgroups.renew_machine(host.lab, host.name)
        status = subprocess.run(
            [program(argv[0]), *argv[1:]],
            check=False,
            stdin=subprocess.DEVNULL,
            env=nspawn.environment(host, os.environ),
            preexec_fn=partial(cgroups.enter, [machine]),
        ).returncode
    return status
