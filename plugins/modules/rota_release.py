"""Install one release of the program into its own directory, and point `current` at it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rota_release
short_description: Install a release of Rota, or make it the current one
description:
  - V(installed) makes a virtual environment C(ROOT/releases/NAME) from an archive of wheels, offline
    and by hash. A marker is written last, so what an interrupted run left half made is made again.
  - V(current) switches the link C(ROOT/current) by rename and removes old releases.
options:
  state:
    description: What to reach.
    type: str
    choices: [installed, current]
    required: true
  name:
    description: The release's name, from the module rota_wheelhouse.
    type: str
    required: true
  archive:
    description: The archive on the host; removed once installed. For V(installed).
    type: path
  root:
    description: Where releases live.
    type: path
    default: /opt/rota
  keep:
    description: How many releases stay, the current one among them. For V(current).
    type: int
    default: 3
author: The Rota authors
"""

EXAMPLES = r"""
- name: Install the release
  rota_release:
    state: installed
    name: "{{ release }}"
    archive: "/var/cache/rota-{{ release }}.zip"
"""

RETURN = r"""
removed:
  description: The old releases that were removed.
  type: list
  elements: str
  returned: for state current
"""

MARKER = ".complete"


def complete(release: Path) -> bool:
    return (release / MARKER).exists()


def install_commands(release: Path, wheels: Path) -> list[list[str]]:
    options = (
        "--no-index",
        "--find-links",
        str(wheels),
        "--require-hashes",
        "--only-binary=:all:",
        "--quiet",
    )
    isolated = ("--isolated", "--no-cache-dir", "--disable-pip-version-check", "--no-input")
    return [
        ["/usr/bin/python3", "-m", "venv", str(release)],
        [
            f"{release}/bin/python",
            "-m",
            "pip",
            "install",
            *isolated,
            *options,
            "-r",
            f"{wheels}/requirements.lock",
        ],
    ]


def install(release: Path, archive: Path) -> None:
    """Make the release from nothing.

    Raises:
        subprocess.CalledProcessError: the environment could not be made or filled.
        OSError: the disk is full or cannot be written.
        zipfile.BadZipFile: the archive did not arrive whole.
    """
    os.umask(0o022)  # whatever root's own is: the program's user must read a release
    shutil.rmtree(release, ignore_errors=True)
    release.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        with zipfile.ZipFile(archive) as bundle:
            bundle.extractall(scratch)
        for command in install_commands(release, Path(scratch)):
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    # After a power loss the marker must not be there without what it vouches for.
    os.sync()
    (release / MARKER).touch()


def current(root: Path) -> str:
    try:
        return (root / "current").readlink().name
    except FileNotFoundError:
        return ""


def switch(root: Path, name: str) -> None:
    fresh = root / ".current"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(f"releases/{name}")
    fresh.replace(root / "current")


def running(proc: Path = Path("/proc")) -> set[str]:
    """Give the names of the releases that a process on this host runs from."""
    names = set()
    for path in proc.glob("[0-9]*/cmdline"):
        try:
            first = path.read_bytes().split(b"\0")[0]
        except OSError:  # the process has ended
            continue
        parts = Path(os.fsdecode(first)).parts
        if "releases" in parts[:-1]:
            names.add(parts[parts.index("releases") + 1])
    return names


def outdated(releases: list[tuple[float, str]], keep: int, pinned: set[str]) -> list[str]:
    """Give the releases to remove.

    Args:
        releases: Age order keys (larger is newer) and names.
        keep: How many may stay.
        pinned: Names that stay whatever their age; they count among `keep`.
    """
    newest = [name for _, name in sorted(releases, reverse=True)]
    ranked = [name for name in newest if name in pinned] + [name for name in newest if name not in pinned]
    return [name for name in ranked[keep:] if name not in pinned]


def old_releases(root: Path, name: str, keep: int) -> list[str]:
    found = [(path.stat().st_mtime, path.name) for path in (root / "releases").glob("*")]
    return outdated(found, keep, {name, *running()})


def reach_installed(module: AnsibleModule, root: Path, name: str) -> None:
    release, archive = root / "releases" / name, Path(module.params["archive"])
    if complete(release):
        module.exit_json(changed=False)
    if not module.check_mode:
        try:
            install(release, archive)
        except (subprocess.CalledProcessError, OSError, zipfile.BadZipFile) as error:
            # Half a release must not keep the disk full, on which the hub runs as well.
            shutil.rmtree(release, ignore_errors=True)
            said = getattr(error, "stderr", "") or getattr(error, "stdout", "") or error
            module.fail_json(msg=f"Release {name} could not be installed: {said}")
        archive.unlink()
    module.exit_json(changed=True)


def reach_current(module: AnsibleModule, root: Path, name: str) -> None:
    before = current(root)
    removed = old_releases(root, name, module.params["keep"])
    if not module.check_mode:
        if before != name:
            switch(root, name)
        for old in removed:
            shutil.rmtree(root / "releases" / old)
    diff = {"before": f"{before}\n", "after": f"{name}\n"}
    module.exit_json(changed=before != name or bool(removed), removed=removed, diff=diff)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["installed", "current"], "required": True},
            "name": {"type": "str", "required": True},
            "archive": {"type": "path"},
            "root": {"type": "path", "default": "/opt/rota"},
            "keep": {"type": "int", "default": 3},
        },
        required_if=[("state", "installed", ["archive"])],
        supports_check_mode=True,
    )
    reach = {"installed": reach_installed, "current": reach_current}[module.params["state"]]
    reach(module, Path(module.params["root"]), module.params["name"])


if __name__ == "__main__":
    main()
