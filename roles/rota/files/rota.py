#!/usr/bin/python3 -I
"""The command `rota` on a host: runs the program as its own user, with the hub's settings and credentials.

Root types `rota backup now`; systemd runs that as a unit of its own, with the credentials that the hub's
units have, and hands its output and exit code through. Standard library only: it runs on the host's own
Python.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

PROGRAM = "/opt/rota/current/bin/rota"
CREDENTIALS = Path("/etc/rota/credentials")
# Where commands that talk to the hub's API find it, and as whom.
HANDED_ON = ("ROTA_URL", "ROTA_TOKEN", "ROTA_CA")
PROPERTIES = (
    "User=rota",
    "Group=rota",
    "UMask=0077",
    "NoNewPrivileges=yes",
    "WorkingDirectory=/var/lib/rota",
)


def command(arguments: list[str], credentials: list[str], variables: list[str]) -> list[str]:
    """Give the argv of systemd-run.

    Args:
        arguments: What was typed after `rota`.
        credentials: The names of the hub's credentials.
        variables: The names of environment variables to hand on; their values stand on no command line.
    """
    loaded = [f"LoadCredential={name}:{CREDENTIALS / name}" for name in credentials]
    return [
        "/usr/bin/systemd-run",
        # A terminal where there is one, so that Ctrl-C ends the command; else pipes.
        *("--pty", "--pipe", "--wait", "--collect", "--quiet", "--slice=rota.slice"),
        *(f"--property={each}" for each in (*PROPERTIES, *loaded)),
        *(f"--setenv={name}" for name in variables),
        "--",
        PROGRAM,
        # systemd puts variables in for dollars; two stand for one.
        *(argument.replace("$", "$$") for argument in arguments),
    ]


def main() -> None:
    """Become the command, or say why not."""
    if os.geteuid() != 0:
        sys.exit("rota: run this as root. It reads the hub's credentials, and then runs as the user rota.")
    names = sorted(path.name for path in CREDENTIALS.iterdir() if not path.name.startswith("."))
    argv = command(sys.argv[1:], names, [name for name in HANDED_ON if name in os.environ])
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main()
