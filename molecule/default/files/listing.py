"""List what a host holds that a program could leave behind: files, users, groups, units, processes' users."""

import os
import subprocess
from pathlib import Path

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


def main() -> None:
    lines = files()
    lines += [f"user {line}" for line in Path("/etc/passwd").read_text().splitlines()]
    lines += [f"group {line}" for line in Path("/etc/group").read_text().splitlines()]
    lines += said("file", "systemctl", "list-unit-files", "--no-legend", "--plain")
    lines += said("unit", "systemctl", "list-units", "--all", "--no-legend", "--plain", "rota*")
    lines += said("owner", "ps", "-e", "-o", "user=")
    tables = subprocess.run(["nft", "list", "tables"], check=True, capture_output=True, text=True).stdout
    lines += [f"nft {line}" for line in tables.splitlines()]
    print("\n".join(sorted(set(lines))))


main()
