"""Every Molecule scenario, run whole on hosts of the lab that it makes and takes away itself."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Those of one entry follow one another on the same hosts.
RUNS = (("default", "cluster", "hub", "failover", "upgrade", "servers"), ("nfs",))
LONGEST = 3600  # seconds: past that something hangs
SHOWN = 120  # lines of the output that a failure shows


def test_every_scenario_is_run() -> None:
    there = {path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml")}
    assert there == {scenario for scenarios in RUNS for scenario in scenarios}


@pytest.mark.lab
@pytest.mark.parametrize("scenarios", RUNS, ids="-".join)
def test_scenarios(scenarios: tuple[str, ...]) -> None:
    log = ROOT / ".cache" / "molecule" / f"{scenarios[0]}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    names = [f"--scenario-name={name}" for name in scenarios]
    began = time.monotonic()
    with log.open("wb") as out:
        # What a run that was killed has left: Molecule would take the hosts for made.
        for argv in (["molecule", "reset", *names], ["molecule", "test", *names]):
            code = run(argv, out)
    print(f"scenarios {', '.join(scenarios)}: {time.monotonic() - began:.0f} s")
    lines = log.read_text(errors="replace").splitlines()
    assert code == 0, "\n".join([f"the whole output is in {log}", *lines[-SHOWN:]])


def run(argv: list[str], out: BinaryIO) -> int:
    """Run Molecule with its output in a file: Ansible refuses a standard error that does not block."""
    venv = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{venv}:{os.environ['PATH']}", "ANSIBLE_FORCE_COLOR": "0"}
    process = subprocess.Popen(
        argv,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=out,
        start_new_session=True,
    )
    return process.wait(timeout=LONGEST)
