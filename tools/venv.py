"""Makes .venv from the hashed requirements, in two steps; does nothing when it is current.

    python3 tools/venv.py build     what `make run` needs
    python3 tools/venv.py dev       everything, for `make test`

Hashed requirements and an editable install do not go in one step, so the
hashed file comes first, what builds the project included, and then the project
itself, without dependencies and without an isolated build.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
OLDEST = (3, 11)
SETS = {"build": ["requirements-build.txt"], "dev": ["requirements-dev.txt"]}


def main() -> int:
    """Make or renew the environment that is asked for."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else "dev"
    missing = missing_prerequisites()
    if missing:
        print(missing, file=sys.stderr)
        return 1
    stamp = VENV / f".{wanted}"
    now = digest(SETS[wanted])
    if stamp.exists() and stamp.read_text() == now:
        return 0
    print(f"Making .venv for {wanted} (once, a minute or so) …", flush=True)
    if not (VENV / "bin" / "pip").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    for name in SETS[wanted]:
        subprocess.run([*pip, "--require-hashes", "--requirement", name], cwd=ROOT, check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--editable", "."], cwd=ROOT, check=True)
    stamp.write_text(now)
    return 0


def missing_prerequisites() -> str:
    """Return what an operator must install first, or nothing."""
    if sys.version_info < OLDEST:
        return f"Rota needs Python 3.11 or newer, and this is {sys.version.split()[0]}: use Debian 12 or 13."
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        return "Python cannot make virtual environments here. Install it with:  apt install python3-venv"
    if not os.access(ROOT, os.W_OK):
        return f"This user may not write to {ROOT}, where .venv would be made: copy the project elsewhere."
    return ""


def digest(names: list[str]) -> str:
    """Return what the environment depends on, as one hash."""
    hasher = hashlib.sha256(sys.version.encode() + str(VENV).encode())
    for name in [*names, "pyproject.toml"]:
        hasher.update((ROOT / name).read_bytes())
    return hasher.hexdigest()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("Stopped; run it again to go on.", file=sys.stderr)
        sys.exit(130)
    except subprocess.CalledProcessError as error:
        print(f"This step failed, and its message stands above: {' '.join(error.cmd)}", file=sys.stderr)
        sys.exit(1)
