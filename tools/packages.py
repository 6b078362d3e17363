"""Installs the Debian packages that `make test` needs; without root, says what it would leave out."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The tests start servers of their own from these; Debian's own instances are not used.
SERVERS = ("postgresql", "pgbouncer", "haproxy", "iproute2")
# Faults are injected with strace; the Go project's own verifier reads what our log makes.
TOOLS = ("strace", "golang-go", "golang-golang-x-mod-dev")
# Pages are looked at in a real browser.
BROWSER = ("chromium",)
NEEDED = (*SERVERS, *TOOLS, *BROWSER)
LEFT_OUT = "the lab's own tests and the Molecule scenarios, on real systemd hosts made on the spot"


def main() -> int:
    """Install what is missing, or explain."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", default="1", help="0 leaves the lab out")
    lab = parser.parse_args().lab != "0"
    if os.geteuid() != 0:
        return _without_root(lab=lab)
    missing = [name for name in NEEDED if not _installed(name)]
    if missing:
        _apt_get(missing)
    if lab:
        subprocess.run([str(ROOT / "molecule" / "labctl"), "packages"], check=True)
    return 0


def _without_root(*, lab: bool) -> int:
    if lab:
        print(
            f"Without root this leaves out {LEFT_OUT}.\n"
            "Run `sudo make test` for everything, or `make test LAB=0` for the rest.",
            file=sys.stderr,
        )
        return 1
    missing = [name for name in NEEDED if not _installed(name)]
    if missing:
        names = " ".join(missing)
        print(f"The tests start servers of their own. Install them:  apt install {names}", file=sys.stderr)
        return 1
    print(f"LAB=0: leaving out {LEFT_OUT}.")
    return 0


def _installed(package: str) -> bool:
    dpkg = shutil.which("dpkg-query")
    if dpkg is None:
        return False
    command = [dpkg, "--show", "--showformat=${db:Status-Abbrev}", package]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    return asked.stdout.startswith("ii")


def _apt_get(packages: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Debian would start a server of its own at once, which nobody here asked for.
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        for verb in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
            command = ["/usr/bin/apt-get", "--quiet", "--quiet", *verb]
            subprocess.run(command, check=True, env=environment, stdout=sys.stderr)
    finally:
        if ours:
            policy.unlink()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        print(f"This step failed, and its message stands above: {' '.join(error.cmd)}", file=sys.stderr)
        sys.exit(1)
