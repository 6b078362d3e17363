"""Where rootd keeps things, and how it writes files and runs programs."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.rootd.fields import RefusedError

STATE, PATIENCE = Path("/var/lib/rota-server"), 90  # seconds that a program may take


@dataclass(frozen=True)
class Places:
    """The directories and files, all of them root's own."""

    artifacts: Path = STATE / "artifacts"  # one tree for each artifact, named by the SHA-256 of its archive
    placed: Path = STATE / "placed"  # what was last asked for each copy, as JSON
    configuration: Path = STATE / "configuration"  # what each started copy is launched from
    firewall: Path = STATE / "firewall.nft"  # loaded at boot
    units: Path = Path("/etc/systemd/system")
    server: Path = Path("/etc/rota/server.json")  # the kit's: {"address", "primary", "network"}
    output: Path = Path("/run/rota-log")

    def make(self) -> None:
        """Make the directories, for root alone."""
        for each in (self.artifacts, self.placed, self.configuration):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)


def placed(places: Places) -> dict[str, dict[str, Any]]:
    """Return what is placed here, by copy."""
    files = sorted(places.placed.glob("[!.]*.json"))
    return {path.name.removesuffix(".json"): json.loads(path.read_bytes()) for path in files}


def run(argv: list[str], given: str = "") -> str:
    """Run a program, with no environment of ours, and return its output. Raises RefusedError."""
    clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(  # noqa: S603 - argv lists of our own; what varies in them was checked
        argv, input=given.encode(), capture_output=True, check=False, timeout=PATIENCE, env=clean
    )
    if done.returncode != 0:
        raise RefusedError(f"{' '.join(argv[:3])}: {done.stderr.decode(errors='replace').strip()[:500]}")
    return done.stdout.decode(errors="replace")


def write(path: Path, data: bytes, mode: int = 0o600) -> bool:
    """Replace a file in one step, on the disk when this returns; return whether it was another before."""
    if path.is_file() and path.read_bytes() == data:
        return False
    new = path.with_name(f".new-{path.name}")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    new.replace(path)
    sync(path.parent)
    return True


def sync(directory: Path) -> None:
    """Bring the names in a directory to the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
