"""Keep the peers of rota0 as /etc/wireguard/rota0.peers lists them, and tell how the tunnel is.

    rota-tunnel sync                       adds, changes and removes peers; the others do not notice
    rota-tunnel keep                       looks up anew the endpoints of peers that are silent, and
                                           starts the interface again if it is gone
    rota-tunnel health [--wait S] [HOST..] fails, and names them, if hosts (all peers) are silent

A peer is silent when its last handshake is older than 180 s: WireGuard makes one every two minutes while
packets travel, and both ends send one every 25 s. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

INTERFACE = "rota0"
PEERS = Path("/etc/wireguard/rota0.peers")
UNIT = f"wg-quick@{INTERFACE}.service"
SILENT = 180  # seconds; see above
NUDGE = 9  # the port of the discard protocol: any packet makes WireGuard speak to the peer
FIELDS = 8  # of a peer's line in `wg show INTERFACE dump`


class Peer(NamedTuple):
    """A peer as the file lists it."""

    host: str
    key: str
    allowed: str
    endpoint: str
    keepalive: str


class Live(NamedTuple):
    """A peer as the interface has it; `shaken` is the time of the last handshake, 0 for never."""

    endpoint: str
    allowed: str
    keepalive: str
    shaken: int


def read_peers(text: str) -> list[Peer]:
    """Read the file: each [Peer] has its host's name in the comment before it."""
    peers: list[Peer] = []
    host, name, found = "", "", {}
    for line in [*text.splitlines(), "[Peer]"]:
        if line.startswith("# "):
            name = line[2:]
        elif line == "[Peer]":
            if found:
                peers.append(
                    Peer(
                        host,
                        found["PublicKey"],
                        found["AllowedIPs"],
                        found["Endpoint"],
                        found["PersistentKeepalive"],
                    )
                )
                found = {}
            host = name
        elif "=" in line:
            key, _, value = line.partition(" = ")
            found[key] = value
    return peers


def read_dump(text: str) -> dict[str, Live]:
    """Read `wg show INTERFACE dump`: the live peers by key."""
    rows = [line.split("\t") for line in text.splitlines()]
    return {
        row[0]: Live(endpoint=row[2], allowed=row[3], keepalive=row[7], shaken=int(row[4]))
        for row in rows
        if len(row) == FIELDS
    }


def plan(wanted: list[Peer], live: dict[str, Live], endpoints: dict[str, str]) -> list[list[str]]:
    """Say what `wg set` must be told: removals first, so that an address is free for its new peer.

    Args:
        wanted: The peers of the file.
        live: The peers of the interface, by key.
        endpoints: ADDRESS:PORT by host, as its name resolves now; what does not resolve is left out.
    """
    keys = {peer.key for peer in wanted}
    steps = [["peer", key, "remove"] for key in live if key not in keys]
    for peer in wanted:
        have = live.get(peer.key)
        endpoint = endpoints.get(peer.host)
        same = have and (have.allowed, have.keepalive) == (peer.allowed, peer.keepalive)
        if same and have and endpoint in (None, have.endpoint):
            continue
        settings = ["allowed-ips", peer.allowed, "persistent-keepalive", peer.keepalive]
        steps.append(["peer", peer.key, *(["endpoint", endpoint] if endpoint else []), *settings])
    return steps


def resolve(endpoint: str) -> str | None:
    """Give ADDRESS:PORT for NAME:PORT; None when the name has no address now."""
    name, _, port = endpoint.rpartition(":")
    try:
        found = socket.getaddrinfo(name.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    except OSError:
        return None
    address = str(found[4][0])
    return f"[{address}]:{port}" if found[0] == socket.AF_INET6 else f"{address}:{port}"


def wg(*arguments: str) -> str:
    """Run wg and give what it says."""
    return subprocess.run(["/usr/bin/wg", *arguments], check=True, capture_output=True, text=True).stdout


def live_peers() -> dict[str, Live]:
    """Give the interface's peers, by key."""
    return read_dump(wg("show", INTERFACE, "dump"))


def sync() -> None:
    """Bring the interface to what the file lists."""
    wanted = read_peers(PEERS.read_text())
    endpoints = {peer.host: found for peer in wanted if (found := resolve(peer.endpoint))}
    for step in plan(wanted, live_peers(), endpoints):
        wg("set", INTERFACE, *step)


def silent(peers: list[Peer], live: dict[str, Live], now: float) -> list[Peer]:
    """Give the peers without a recent handshake."""
    return [peer for peer in peers if peer.key not in live or now - live[peer.key].shaken > SILENT]


def keep() -> None:
    """Look up anew the endpoints of silent peers; bring back an interface that is gone."""
    if not Path(f"/sys/class/net/{INTERFACE}").exists():
        # A userspace implementation that was killed takes the interface along; its unit stays active.
        subprocess.run(["/usr/bin/systemctl", "--no-ask-password", "try-restart", UNIT], check=True)
        return
    for peer in silent(read_peers(PEERS.read_text()), live_peers(), time.time()):
        endpoint = resolve(peer.endpoint)
        if endpoint:
            wg("set", INTERFACE, "peer", peer.key, "endpoint", endpoint)


def health(hosts: list[str], wait: float) -> None:
    """Print each peer's age; exit with a sentence if one that is asked for is silent."""
    peers = [peer for peer in read_peers(PEERS.read_text()) if not hosts or peer.host in hosts]
    unknown = sorted(set(hosts) - {peer.host for peer in peers})
    if unknown:
        sys.exit(f"{PEERS} has no peer {', '.join(unknown)}: run the kit without --limit.")
    deadline = time.monotonic() + wait
    while missing := silent(peers, live := live_peers(), time.time()):
        if time.monotonic() > deadline:
            said = ", ".join(f"{peer.host} at {live[peer.key].endpoint}" for peer in missing)
            sys.exit(
                f"No handshake over WireGuard with {said}. Is its UDP port open, there and on the way, "
                "and does it know this host's key?"
            )
        for peer in missing:
            nudge(peer.allowed.partition("/")[0])
        time.sleep(0.5)
    now = time.time()
    sys.stdout.write(json.dumps({peer.host: round(now - live[peer.key].shaken) for peer in peers}) + "\n")


def nudge(address: str) -> None:
    """Send one empty packet, so that WireGuard has something to shake hands for."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as out:
        try:
            out.sendto(b"", (address, NUDGE))
        except OSError:  # refused by the peer after the handshake, or no way there yet: asked again
            return


def main(arguments: list[str]) -> None:
    """Do what the first argument says."""
    parser = argparse.ArgumentParser(prog="rota-tunnel", description=__doc__)
    parser.add_argument("verb", choices=["sync", "keep", "health"])
    parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait for the peers")
    parser.add_argument("hosts", nargs="*")
    given = parser.parse_args(arguments)
    if given.verb == "sync":
        sync()
    elif given.verb == "keep":
        keep()
    else:
        health(given.hosts, given.wait)


if __name__ == "__main__":
    main(sys.argv[1:])
