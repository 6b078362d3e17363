"""Find the scenario's secret wherever it must not be: the journal, command lines, environments, files."""

import os
import subprocess
from pathlib import Path

# In two parts, so that this file is not found itself.
CANARY = b"KIT" + b"CANARY"
PLACES = (
    "/etc",
    "/home",
    "/opt/rota",
    "/root",
    "/run",
    "/tmp",
    "/var/cache",
    "/var/lib/rota",
    "/var/log",
    "/var/tmp",
)
BELONGS = ("/etc/rota/credentials", "/run/credentials")


def holds(path: Path) -> bool:
    try:
        return path.is_file() and CANARY in path.read_bytes()
    except OSError:  # a process that has ended, a file of the kernel's that is not for reading
        return False


def main() -> None:
    found = []
    for place in PLACES:
        for top, folders, names in os.walk(place):
            here = Path(top)
            folders[:] = [name for name in folders if str(here / name) not in BELONGS]
            found += [str(here / name) for name in names if holds(here / name)]
    found += [
        str(path)
        for kind in ("cmdline", "environ")
        for path in Path("/proc").glob(f"[0-9]*/{kind}")
        if holds(path)
    ]
    journal = subprocess.run(["journalctl", "--no-pager", "--all"], check=True, capture_output=True).stdout
    found += [line.decode() for line in journal.splitlines() if CANARY in line]
    assert not found, found
    assert holds(Path("/etc/rota/credentials/server-metrics-token")), (
        "the secret is not even where it belongs"
    )


main()
