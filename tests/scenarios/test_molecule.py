"""Every Molecule scenario, run whole on hosts of the lab that it makes and takes away itself."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = sorted(path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml"))
LONGEST = 1800  # seconds: past that something hangs
SHOWN = 120  # lines of the output that a failure shows


def test_there_are_scenarios() -> None:
    assert "default" in SCENARIOS


@pytest.mark.lab
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: str) -> None:
    log = ROOT / ".cache" / "molecule" / f"{scenario}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    venv = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{venv}:{os.environ['PATH']}", "ANSIBLE_FORCE_COLOR": "0"}
    began = time.monotonic()
    # A file, not a pipe: Ansible refuses a standard error that does not block, as ssh leaves a shared one.
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["molecule", "test", "--scenario-name", scenario],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        code = process.wait(timeout=LONGEST)
    print(f"scenario {scenario}: {time.monotonic() - began:.0f} s")
    lines = log.read_text(errors="replace").splitlines()
    assert code == 0, "\n".join([f"the whole output is in {log}", *lines[-SHOWN:]])
