"""`make lock`: resolves every requirements file anew, with hashes and without addresses."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = ("requirements", "requirements-build", "requirements-dev", "tests/bench/queue/requirements")


def main() -> int:
    """Write each .txt from its .in."""
    for name in FILES:
        command = ["uv", "pip", "compile", "--quiet", "--generate-hashes", "--no-header"]
        command += ["--python-version", "3.11", "--python-platform", "linux"]
        command += [f"{name}.in", "--output-file", f"{name}.txt"]
        subprocess.run(command, cwd=ROOT, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
