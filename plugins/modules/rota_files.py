"""Keep a set of directories and files exactly as stated, in one module execution."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from grp import getgrgid, getgrnam
from pathlib import Path
from pwd import getpwnam, getpwuid
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rota_files
short_description: Keep a set of directories and files exactly as stated
description:
  - Makes the directories, then writes the files, each by rename, then removes what O(only) matches
    and is not listed.
  - A file is validated before it replaces the old one; the first that is not valid stops the module.
options:
  directories:
    description: Each has C(path), and optionally C(owner), C(group) and C(mode).
    type: list
    elements: dict
    default: []
  files:
    description:
      - Each has C(path) and C(content), and optionally C(owner), C(group), C(mode).
      - C(validate) is a command as a list, in which C(%s) stands for the new file.
      - With C(initial), the content is written only where there is no file: from then on it is another's.
    type: list
    elements: dict
    default: []
  only:
    description: Patterns of paths; files that match and are not listed are removed.
    type: list
    elements: str
    default: []
author: The Rota authors
"""

EXAMPLES = r"""
- name: Keep the units
  rota_files:
    files:
      - path: /etc/systemd/system/rota.slice
        content: "{{ slice }}"
    only: [/etc/systemd/system/rota*.slice]
"""

RETURN = r"""
paths:
  description: What was made, written, corrected or removed, in that order.
  type: list
  elements: str
  returned: always
"""


class Entry(NamedTuple):
    """A directory (content is None) or a file, as it shall be."""

    path: str
    owner: str
    group: str
    mode: int
    content: bytes | None = None
    validate: tuple[str, ...] = ()
    initial: bool = False


class Found(NamedTuple):
    """A path as it is; absent when mode is None."""

    owner: str = ""
    group: str = ""
    mode: int | None = None
    content: bytes | None = None


def directory(raw: dict[str, Any]) -> Entry:
    return Entry(
        raw["path"], raw.get("owner", "root"), raw.get("group", "root"), int(raw.get("mode", "0755"), 8)
    )


def file(raw: dict[str, Any]) -> Entry:
    return Entry(
        raw["path"],
        raw.get("owner", "root"),
        raw.get("group", "root"),
        int(raw.get("mode", "0644"), 8),
        str(raw["content"]).encode(),
        tuple(raw.get("validate", ())),
        bool(raw.get("initial")),
    )


def account(number: int, lookup: Any) -> str:
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)


def look(path: str) -> Found:
    """Read a path without following a link: a link counts as something else than a file."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return Found()
    content = Path(path).read_bytes() if stat.S_ISREG(status.st_mode) else None
    return Found(
        account(status.st_uid, getpwuid),
        account(status.st_gid, getgrgid),
        stat.S_IMODE(status.st_mode),
        content,
    )


def differs(want: Entry, found: Found) -> bool:
    return found != Found(want.owner, want.group, want.mode, want.content)


def surplus(only: list[str], listed: set[str]) -> list[str]:
    """The paths that a pattern of `only` matches and nobody lists."""
    matched = {path for pattern in only for path in map(str, Path("/").glob(pattern.lstrip("/")))}
    return sorted(
        path
        for path in matched
        if path not in listed and not (Path(path).is_dir() and not Path(path).is_symlink())
    )


def text(content: bytes | None) -> str:
    return "" if content is None else content.decode(errors="replace")


def difference(want: Entry, found: Found) -> dict[str, str]:
    """One entry of Ansible's diff; rights are shown as a line above the text."""
    before = (
        "" if found.mode is None else f"# {found.owner}:{found.group} {found.mode:04o}\n{text(found.content)}"
    )
    after = f"# {want.owner}:{want.group} {want.mode:04o}\n{text(want.content)}"
    return {"before_header": want.path, "after_header": want.path, "before": before, "after": after}


def own(path: str, want: Entry) -> None:
    os.chown(path, getpwnam(want.owner).pw_uid, getgrnam(want.group).gr_gid)
    Path(path).chmod(want.mode)


def write(want: Entry) -> None:
    """Write beside the target, validate, then rename.

    Raises:
        subprocess.CalledProcessError: the validation refused the new file; the old one stays.
    """
    target = Path(want.path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".rota-", suffix=target.suffix)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(want.content or b"")
            stream.flush()
            os.fsync(stream.fileno())
        own(name, want)
        if want.validate:
            validate([part.replace("%s", name) for part in want.validate], {name: want.path})
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def validate(argv: list[str], names: dict[str, str]) -> None:
    """Run a checker; what it says names the file itself, and not the draft that it was shown."""
    try:
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        for draft, path in names.items():
            error.stdout, error.stderr = (said.replace(draft, path) for said in (error.stdout, error.stderr))
        raise


def apply(want: Entry, found: Found) -> None:
    if want.content is None:
        Path(want.path).mkdir(parents=True, exist_ok=True)
        own(want.path, want)
    elif found.content == want.content:
        own(want.path, want)
    else:
        write(want)


def remove(path: Path, keep: set[str]) -> None:
    """Remove a file, and its directory when that is left empty and nobody lists it (a drop-in's, say)."""
    path.unlink()
    if str(path.parent) not in keep and not any(path.parent.iterdir()):
        path.parent.rmdir()


def main() -> None:
    entries = {"type": "list", "elements": "dict", "default": []}
    module = AnsibleModule(
        argument_spec={
            "directories": entries,
            "files": entries,
            "only": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    wants = [*map(directory, module.params["directories"]), *map(file, module.params["files"])]
    paths: list[str] = []
    diff: list[dict[str, str]] = []
    for want in wants:
        found = look(want.path)
        if not differs(want, found) or (want.initial and found.content is not None):
            continue
        paths.append(want.path)
        diff.append(difference(want, found))
        if module.check_mode:
            continue
        try:
            apply(want, found)
        except subprocess.CalledProcessError as error:
            said = (error.stderr or error.stdout or "").strip()
            module.fail_json(
                msg=f"{want.path} would not be valid and is left as it was: {said}", paths=paths[:-1]
            )
    for path in surplus(module.params["only"], {want.path for want in wants}):
        paths.append(path)
        diff.append(
            {
                "before_header": path,
                "after_header": "/dev/null",
                "before": text(look(path).content),
                "after": "",
            }
        )
        if not module.check_mode:
            remove(Path(path), keep={want.path for want in wants})
    module.exit_json(changed=bool(paths), paths=paths, diff=diff)


if __name__ == "__main__":
    main()
