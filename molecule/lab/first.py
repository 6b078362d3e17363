#!/usr/bin/python3 -IS
"""PID 1 of a host on cgroup version 1: open the controllers for writing, then become systemd.

systemd-nspawn mounts them read-only, and limits in units would be accepted and have no effect. This file is
copied into the host and runs there alone, so it imports nothing of ours.
"""

import os
import subprocess
from pathlib import Path

CONTROLLERS = ("memory", "pids", "cpu", "cpuacct", "blkio")
LEGACY = ("systemd.unified_cgroup_hierarchy=0", "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1")


def main() -> None:
    """Remount and hand over; never returns."""
    for controller in CONTROLLERS:
        directory = Path("/sys/fs/cgroup", controller)
        if directory.is_dir() and not directory.is_symlink():
            subprocess.run(["/usr/bin/mount", "-o", "remount,bind,rw", str(directory)], check=True)
    os.execv("/usr/lib/systemd/systemd", ["systemd", *LEGACY])


if __name__ == "__main__":
    main()
