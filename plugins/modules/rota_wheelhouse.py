"""Build, on the controller, the one archive of wheels that a host installs the program from."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rota_wheelhouse
short_description: Build the archive of wheels that a host installs Rota from
description:
  - Runs on the controller with the Python of the project's C(.venv).
  - Downloads the wheels of C(requirements.txt), checked against its hashes, for the host's Python and
    architecture, and builds the project's own wheel. Two builds of the same source are identical.
  - The archive is named by the BLAKE3 of its sorted wheel hashes and is kept in O(cache); the same
    source is built once.
  - It only ever touches its cache, so it runs in check mode too and never reports a change.
options:
  source:
    description: The root of the checkout.
    type: path
    required: true
  cache:
    description: Where archives are kept on the controller.
    type: path
    required: true
  python:
    description: The host's Python, as in C(3.13).
    type: str
    required: true
  machine:
    description: The host's architecture, as C(uname -m) says it.
    type: str
    required: true
author: The Rota authors
"""

EXAMPLES = r"""
- name: Build the wheelhouse
  rota_wheelhouse:
    source: "{{ rota_source }}"
    cache: "{{ rota_cache }}"
    python: "3.13"
    machine: x86_64
  delegate_to: localhost
"""

RETURN = r"""
hash:
  description: The release's name.
  type: str
  returned: success
archive:
  description: The archive's path on the controller.
  type: str
  returned: success
"""

# The name is the first 128 bits of the hash: enough against any accident, and short in a listing.
NAME_DIGITS = 32
# How many archives the cache keeps: more than the kinds of host that one run meets.
KEPT = 12
GLIBC = ("manylinux2014", "manylinux_2_17", "manylinux_2_28")
INPUTS = ("pyproject.toml", "requirements.txt", "README.md", "LICENSE")
# A zip's earliest time: the archive's bytes must not depend on when it was made.
EPOCH = (1980, 1, 1, 0, 0, 0)


def blake3(content: bytes) -> str:
    from blake3 import blake3 as hasher  # noqa: PLC0415 - only the controller has it; ansible-doc must not need it

    return str(hasher(content).hexdigest())


def source_files(source: Path) -> list[Path]:
    """What the wheelhouse is made from, relative to the source, sorted."""
    app = [path for path in (source / "app").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return sorted(path.relative_to(source) for path in [*app, *(source / name for name in INPUTS)])


def inputs_hash(source: Path, python: str, machine: str) -> str:
    lines = [f"{python} {machine}"]
    lines += [f"{path} {blake3((source / path).read_bytes())}" for path in source_files(source)]
    return blake3("\n".join(lines).encode())[:NAME_DIGITS]


def download_command(source: Path, into: Path, python: str, machine: str) -> list[str]:
    platforms = [f"--platform={glibc}_{machine}" for glibc in GLIBC]
    return [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"),
        *("--require-hashes", "--implementation=cp", f"--python-version={python}", *platforms),
        *("--requirement", str(source / "requirements.txt"), "--dest", str(into)),
    ]


def wheel_command(source: Path, into: Path) -> list[str]:
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(into))
    return [sys.executable, "-m", "pip", "wheel", *options, str(source)]


def locked(wheels: list[Path]) -> str:
    """Give the requirements that name exactly these wheels by their hashes."""
    lines = []
    for wheel in wheels:
        name, version = wheel.name.split("-")[:2]
        lines.append(f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    return "".join(lines)


def release_name(wheels: list[Path]) -> str:
    hashes = sorted(blake3(wheel.read_bytes()) for wheel in wheels)
    return blake3("\n".join(hashes).encode())[:NAME_DIGITS]


def pack(wheels: list[Path], archive: Path) -> None:
    members = [(wheel.name, wheel.read_bytes()) for wheel in wheels]
    members.append(("requirements.lock", locked(wheels).encode()))
    part = archive.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as bundle:
        for name, content in members:
            bundle.writestr(zipfile.ZipInfo(name, EPOCH), content)
    part.replace(archive)


def build(source: Path, cache: Path, python: str, machine: str) -> str:
    """Make the archive and give its name.

    Raises:
        subprocess.CalledProcessError: pip could not download or build.
    """
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        into = Path(scratch)
        for command in (download_command(source, into, python, machine), wheel_command(source, into)):
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        wheels = sorted(into.glob("*.whl"))
        name = release_name(wheels)
        pack(wheels, cache / f"{name}.zip")
    return name


def wheelhouse(source: Path, cache: Path, python: str, machine: str) -> str:
    """Give the name of the source's archive, building it if the cache lacks it."""
    index = cache / f"{inputs_hash(source, python, machine)}.name"
    if index.exists():
        name = index.read_text().strip()
        if (cache / f"{name}.zip").exists():
            return name
    name = build(source, cache, python, machine)
    index.write_text(f"{name}\n")
    for pattern in ("*.zip", "*.name"):
        for old in sorted(cache.glob(pattern), key=lambda path: path.stat().st_mtime)[:-KEPT]:
            old.unlink()
    return name


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "path", "required": True},
            "cache": {"type": "path", "required": True},
            "python": {"type": "str", "required": True},
            "machine": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    source, cache = Path(module.params["source"]).resolve(), Path(module.params["cache"]).resolve()
    cache.mkdir(parents=True, exist_ok=True)
    # Hosts ask at the same time; the first one builds and the others find it.
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            name = wheelhouse(source, cache, module.params["python"], module.params["machine"])
        except subprocess.CalledProcessError as error:
            module.fail_json(
                msg=f"The wheelhouse could not be built: {' '.join(error.cmd[:4])} said: "
                f"{error.stderr.strip()}. The controller runs Ansible from the project's .venv (make venv).",
            )
    module.exit_json(changed=False, hash=name, archive=os.fspath(cache / f"{name}.zip"))


if __name__ == "__main__":
    main()
