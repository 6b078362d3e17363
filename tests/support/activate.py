"""Becomes a program to which a listening socket is passed as systemd passes one.

Usage: activate.py DESCRIPTOR PROGRAM [ARGUMENT …]
"""

import os
import sys

FIRST = 3  # the descriptor at which passed sockets begin


def main(descriptor: int, argv: list[str]) -> None:
    """Put the socket in its place and become the program."""
    os.dup2(descriptor, FIRST)
    environment = {**os.environ, "LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
    os.execve(argv[0], argv, environment)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
