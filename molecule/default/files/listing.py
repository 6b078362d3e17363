"""List what a host holds that a program could leave behind: files, users, groups, units, processes' users.

`keep` keeps the list on the host; `compare` fails when the host differs from it.
"""

import os
import subprocess
import sys
from pathlib import Path

KEPT = Path("/var/tmp/listing")
# What the system itself writes as it runs: state, caches, journals, packages' own databases.
PASSING = frozenset(
    [
        *("/boot", "/dev", "/proc", "/root/.ansible", "/sys", "/tmp"),
        *(f"/run/{name}" for name in ("chrony", "chrony-dhcp", "credentials", "dbus", "host", "lock", "log")),
        *(f"/run/{name}" for name in ("sshd", "sudo", "systemd", "udev", "user")),
        *(f"/var/{name}" for name in ("cache/apt", "cache/debconf", "log", "tmp")),
        *(f"/var/lib/{name}" for name in ("apt", "chrony", "dpkg", "private", "systemd")),
    ],
)


def files() -> list[str]:
    found = []
    for top, folders, names in os.walk("/"):
        here = Path(top)
        folders[:] = [name for name in folders if str(here / name) not in PASSING and name != "__pycache__"]
        # Files that end in "-" are the copies that useradd and its kin make.
        found += [f"path {here / name}" for name in [*folders, *names] if not name.endswith("-")]
    return found


def said(kind: str, *argv: str) -> list[str]:
    answer = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return [f"{kind} {line.split()[0]}" for line in answer.splitlines() if line.split()]


def listing() -> set[str]:
    lines = files()
    lines += [f"user {line}" for line in Path("/etc/passwd").read_text().splitlines()]
    lines += [f"group {line}" for line in Path("/etc/group").read_text().splitlines()]
    lines += said("file", "systemctl", "list-unit-files", "--no-legend", "--plain")
    lines += said("unit", "systemctl", "list-units", "--all", "--no-legend", "--plain", "rota*")
    lines += said("owner", "ps", "-e", "-o", "user=")
    tables = subprocess.run(["nft", "list", "tables"], check=True, capture_output=True, text=True).stdout
    lines += [f"nft {line}" for line in tables.splitlines()]
    return set(lines)


def main() -> None:
    now = listing()
    if sys.argv[1:] == ["keep"]:
        KEPT.write_text("\n".join(sorted(now)))
        return
    before = set(KEPT.read_text().splitlines())
    left = sorted(now - before)
    # The host was started again since, and /run begins empty.
    gone = sorted(line for line in before - now if not line.startswith("path /run/"))
    assert not left, f"left behind: {left[:50]}"
    assert not gone, f"gone too: {gone[:50]}"


main()
