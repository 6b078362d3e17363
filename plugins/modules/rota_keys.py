"""Make the secrets that the kit needs for itself, where they are missing, and give them to the run."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rota_keys
short_description: Make missing secrets, and give all that are asked for
description:
  - Each secret is a file that only root reads. One that is there is never changed; one that is missing is
    made, of 32 random bytes, as text that needs no quoting anywhere.
  - A file appears whole or not at all. Of two runs that make the same secret at once, one makes it and both
    give it.
  - Its result holds secrets, so its task needs C(no_log).
options:
  names:
    description: The secrets' names, which are their files' names.
    type: list
    elements: str
    required: true
  directory:
    description: Where the files are; made if it is missing.
    type: path
    default: /etc/rota/keys
author: The Rota authors
"""

EXAMPLES = r"""
- name: Read the hub's own secrets
  rota_keys:
    names: [database-password]
  delegate_to: "{{ groups['primary'] | first }}"
  register: keys
  no_log: true
"""

RETURN = r"""
secrets:
  description: Each secret by its name. In check mode one that is missing is a placeholder.
  type: dict
  returned: success
made:
  description: The names of those that were, or would be, made.
  type: list
  elements: str
  returned: success
"""

BYTES = 32
FOLDER = 0o700
FILE = 0o600
PLACEHOLDER = "made-by-the-first-run"


class Unusable(Exception):  # noqa: N818 - reads as what happened
    """A secret's file holds no secret; the message is for the operator."""


def read(path: Path) -> str | None:
    """Give the secret in a file, or None where there is none.

    Raises:
        Unusable: the file is there and empty, or holds no text.
    """
    try:
        secret = path.read_text().strip()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise Unusable(
            f"{path} holds no text. Put the secret back into it, or remove the file to have a new one made."
        ) from error
    if not secret:
        raise Unusable(
            f"{path} is empty. Put the secret back into it, or remove the file to have a new one made."
        )
    return secret


def sync(directory: Path) -> None:
    """Make what was named or renamed in a directory outlive a power loss."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def narrow(path: Path, mode: int) -> bool:
    """Give a path the rights that it shall have; say whether it had others."""
    if stat.S_IMODE(path.stat().st_mode) == mode:
        return False
    path.chmod(mode)
    return True


def make_directory(directory: Path) -> bool:
    """Make the directory, or put its rights right; say whether anything differed."""
    if directory.is_dir():
        return narrow(directory, FOLDER)
    directory.mkdir(mode=FOLDER, parents=True)
    sync(directory.parent)
    return True


def make(path: Path) -> str:
    """Make a secret and give it; give the one that is there when another run was quicker."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".rota-")
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(secrets.token_urlsafe(BYTES))
            stream.flush()
            os.fsync(stream.fileno())
        # A link, unlike a rename, replaces nothing.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        Path(draft).unlink()
    sync(path.parent)
    return path.read_text().strip()


def reach(names: list[str], directory: Path, *, act: bool) -> tuple[dict[str, str], list[str], bool]:
    """Give the secrets, the names of those made, and whether anything was or would be changed.

    Raises:
        Unusable: a file holds no secret.
    """
    found = {name: read(directory / name) for name in names}
    made = [name for name, secret in found.items() if secret is None]
    changed = bool(made)
    if act:
        changed |= make_directory(directory)
        found |= {name: make(directory / name) for name in made}
        for name in names:
            changed |= narrow(directory / name, FILE)
    return {name: secret or PLACEHOLDER for name, secret in found.items()}, made, changed


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "directory": {"type": "path", "default": "/etc/rota/keys"},
        },
        supports_check_mode=True,
    )
    try:
        found, made, changed = reach(
            module.params["names"], Path(module.params["directory"]), act=not module.check_mode
        )
    except Unusable as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, secrets=found, made=made)


if __name__ == "__main__":
    main()
