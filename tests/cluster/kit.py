"""The kit, run as an operator runs it, on the cluster under test."""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.inventory import ROOT, inventories

from lab.places import Places

LONGEST = 900.0  # seconds for one playbook
_RECAP = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """One run of a playbook: its exit status, all that it said, its seconds, and what it executed."""

    code: int
    said: str
    seconds: float
    executed: dict[str, dict[str, int]]

    @property
    def changed(self) -> dict[str, int]:
        """What changed, by host."""
        return {host: int(changed) for host, changed, _, _ in _RECAP.findall(self.said)}


def run_kit(place: Path, *arguments: str, instead: list[Path] | None = None, playbook: str = "site") -> Run:
    """Run a playbook to its end, whatever its exit status.

    `place` is a directory for its output; `instead` are inventories in the place of the cluster's own.
    """
    counts = place / "counts.jsonl"
    counts.unlink(missing_ok=True)
    program = Path(sys.executable).with_name("ansible-playbook")
    argv = [str(program), *(f"--inventory={path}" for path in instead or inventories()), *arguments]
    # Ansible refuses pipes that do not block: a file it is.
    with (place / "output").open("w+") as output:
        began = time.monotonic()
        done = subprocess.run(
            [*argv, str(ROOT / "playbooks" / f"{playbook}.yml")],
            cwd=ROOT,
            env={**os.environ, **_environment(counts)},
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=LONGEST,
        )
        took = time.monotonic() - began
        output.seek(0)
        return Run(done.returncode, output.read(), took, _executed(counts))


def _environment(counts: Path) -> dict[str, str]:
    return {
        "ANSIBLE_FORCE_COLOR": "0",
        # Apart from those of other labs, whose hosts may have the same addresses.
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(Places.from_environment().control(os.environ["ROTA_LAB"])),
        "ROTA_COUNT_FILE": str(counts),
    }


def _executed(counts: Path) -> dict[str, dict[str, int]]:
    if not counts.exists():
        return {}
    hosts: dict[str, dict[str, Any]] = json.loads(counts.read_text().splitlines()[-1])["hosts"]
    return {host: about["executed"] for host, about in hosts.items()}
