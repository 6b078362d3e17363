"""Make a host's WireGuard key where there is none, and tell its public half."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rota_wireguard
short_description: Make a host's WireGuard key where there is none
description:
  - The private key is made on the host, in a file that only root reads, and never leaves it.
  - Tells the public key, and whether the kernel speaks WireGuard itself.
options:
  key:
    description: The file of the private key.
    type: path
    required: true
author: The Rota authors
"""

EXAMPLES = r"""
- name: Make the key
  rota_wireguard:
    key: /etc/wireguard/rota0.key
  register: key
"""

RETURN = r"""
public:
  description: The public key; empty in check mode when there is no key yet.
  type: str
  returned: always
kernel:
  description: Whether the kernel has WireGuard, loaded or to be loaded.
  type: bool
  returned: always
"""

MODULE = Path("/sys/module/wireguard")


def wg(verb: str, given: str = "") -> str:
    return subprocess.run(
        ["/usr/bin/wg", verb], check=True, input=given, capture_output=True, text=True
    ).stdout


def make(path: Path) -> None:
    """Write a new private key, whole or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(wg("genkey"))
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(path)


def in_kernel() -> bool:
    """Say whether WireGuard is in the kernel, or can be loaded."""
    if MODULE.exists():
        return True
    asked = ["/usr/sbin/modprobe", "--dry-run", "--quiet", "wireguard"]
    try:
        return subprocess.run(asked, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def main() -> None:
    module = AnsibleModule(
        argument_spec={"key": {"type": "path", "required": True, "no_log": False}},
        supports_check_mode=True,
    )
    path = Path(module.params["key"])
    missing = not path.exists()
    try:
        if missing and not module.check_mode:
            make(path)
        public = wg("pubkey", path.read_text(errors="replace")).strip() if path.exists() else ""
    except subprocess.CalledProcessError as error:
        module.fail_json(
            msg=f"{path} holds no WireGuard key ({error.stderr.strip()}): remove it, and run the kit again "
            "without --limit."
        )
    module.exit_json(changed=missing, public=public, kernel=in_kernel())


if __name__ == "__main__":
    main()
