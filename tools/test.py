"""`make test`, `make lint`, `make type`: each check in turn, and the tests' closing line last."""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TYPED = ["app", "tests", "tools", "plugins", "molecule/lab"]
CHECKS = {
    "lint": [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "--quiet", "."],
        ["yamllint", "--strict", "."],
        ["ansible-lint", "--offline", "--strict"],
    ],
    "type": [["mypy", *TYPED]],
}
SUITES = ("unit", "contract", "property", "security", "kit", "interop", "integration")
# These make hosts, and some measure time: one after the other, with the machine to themselves.
HOSTS = ("lab", "scenarios")
# A file's tests share its processes, and mostly wait for them.
AT_ONCE = ["--numprocesses=2", "--dist=loadfile"]


def main() -> int:
    """Run what is asked for; return the first failure's code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", nargs="?", choices=sorted(CHECKS))
    parser.add_argument("--lab", default="1", help="0 leaves the lab out")
    given = parser.parse_args()
    if given.check:
        return _each(CHECKS[given.check])
    lab = given.lab != "0"
    steps = [*CHECKS["lint"], *CHECKS["type"]]
    if lab:
        steps.append([str(ROOT / "molecule" / "labctl"), "images"])
    only = [] if lab else ["-m", "not lab"]
    steps.append(["pytest", "--quiet", *AT_ONCE, *(f"tests/{name}" for name in SUITES), *only])
    # Its library keeps an event loop running, so that no other test could have one.
    steps.append(["pytest", "--quiet", "tests/browser"])
    steps.append(["pytest", "--quiet", *(f"tests/{name}" for name in HOSTS), *only])
    return _each(steps)


def _each(steps: list[list[str]]) -> int:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    start = time.monotonic()
    for step in steps:
        if step[0] == "pytest":
            took = time.monotonic() - start
            print(f"The tests begin {took:.0f} s in, images made where there were none included", flush=True)
        shown = " ".join(Path(word).name if word.startswith("/") else word for word in step)
        print(f"== {shown}", flush=True)
        began = time.monotonic()
        code = subprocess.run(step, cwd=ROOT, check=False, env=environment).returncode
        if step[0] != "pytest":
            print(f"   {time.monotonic() - began:.0f} s", flush=True)
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
