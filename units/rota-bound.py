"""Prove that a user's processes listen at the addresses that they were told to.

    rota-bound USER ADDRESS:PORT ...

A server that is told to listen at several addresses may start without one of them, and only warn. A unit
runs this after the start, so that systemd starts it again instead. Standard library only: it runs on the
host's own Python.
"""

from __future__ import annotations

import sys
from ipaddress import ip_address
from pathlib import Path
from pwd import getpwnam

LISTENING = "0A"
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def packed(text: str) -> bytes:
    """Give an address of the kernel's table in network order: each 4 bytes stand there in the machine's."""
    words = [int(text[i : i + 8], 16) for i in range(0, len(text), 8)]
    return b"".join(word.to_bytes(4, sys.byteorder) for word in words)


def listening(table: str, user: int) -> set[tuple[str, int]]:
    """Give the addresses and ports at which a user's sockets listen, from a table as the kernel shows it."""
    found = set()
    for line in table.splitlines()[1:]:
        _, local, _, state, _, _, _, owner, *_ = line.split()
        if state == LISTENING and int(owner) == user:
            address, port = local.split(":")
            found.add((str(ip_address(packed(address))), int(port, 16)))
    return found


def endpoint(text: str) -> tuple[str, int]:
    """Read ADDRESS:PORT, where an IPv6 address may stand in brackets."""
    address, _, port = text.rpartition(":")
    return str(ip_address(address.strip("[]"))), int(port)


def main(user: str, wanted: list[str]) -> None:
    """Exit with the addresses that are missing, if any is."""
    found: set[tuple[str, int]] = set()
    for table in TABLES:
        if table.exists():
            found |= listening(table.read_text(), getpwnam(user).pw_uid)
    missing = [text for text in wanted if endpoint(text) not in found]
    if missing:
        sys.exit(
            f"{user} does not listen at {', '.join(missing)}: the address or the port was not to be had. "
            f"The server's own log says why, and `ss -ltnp` who has the port."
        )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
