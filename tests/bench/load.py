"""Load on loopback, and what it cost the server."""

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Result:
    """One round: requests a second, the server's CPU microseconds a request, and how many there were."""

    rate: float
    cpu: float
    requests: int


def tree(pid: int) -> list[int]:
    """Return a process and all below it."""
    found = [pid]
    for one in found:
        children = Path(f"/proc/{one}/task/{one}/children")
        found += [int(child) for child in children.read_text().split()]
    return found


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process tree has used."""
    total = 0
    for one in tree(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def pss_mib(pid: int) -> float:
    """Return the proportional memory of a process tree, in MiB."""
    total = 0
    for one in tree(pid):
        for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def plain(port: int) -> Callable[[], socket.socket]:
    """Return what connects to a port of loopback."""
    return lambda: socket.create_connection(("127.0.0.1", port))


def round_of(
    pid: int, connect: Callable[[], socket.socket], path: str, connections: int, seconds: float
) -> Result:
    """Ask as fast as a few kept connections can; the same bytes each time."""
    request = f"GET {path} HTTP/1.1\r\nHost: hub.example\r\n\r\n".encode()
    counts = [0] * connections
    end = time.monotonic() + seconds

    def client(index: int) -> None:
        with connect() as link:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while time.monotonic() < end:
                link.sendall(request)
                answer = b""
                while not answer.endswith(b"}"):
                    answer += link.recv(4096)
                counts[index] += 1

    before, began = cpu_seconds(pid), time.monotonic()
    threads = [threading.Thread(target=client, args=(index,)) for index in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    done = sum(counts)
    return Result(done / took, (cpu_seconds(pid) - before) / done * 1e6, done)
