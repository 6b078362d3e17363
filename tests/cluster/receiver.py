"""A receiver of acts: takes datagrams, refuses older epochs, and writes it all down with the kernel's times.

Usage: python -m tests.cluster.receiver ADDRESS PORT FILE. Runs on the lab's network until it is ended.
"""

import json
import socket
import struct
import sys
from pathlib import Path

from tests.cluster.history import SECOND, Act

from rota.coordination.epoch import EpochGate, Fence
from rota.errors import FencedError

SO_TIMESTAMPNS = 35  # the kernel's own note of when a datagram came in; Python has no name for it
_TIMESPEC = struct.Struct("@qq")


def main(address: str, port: int, file: Path) -> None:
    """Receive until ended."""
    gate = EpochGate()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire, file.open("a", buffering=1) as out:
        wire.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        wire.bind((address, port))
        print("ready", flush=True)
        while True:
            data, notes, _, _ = wire.recvmsg(4096, socket.CMSG_SPACE(_TIMESPEC.size))
            out.write(received(gate, data, _moment(notes)).to_json() + "\n")


def received(gate: EpochGate, data: bytes, at: int) -> Act:
    """Return an act as the receiver takes it: accepted, or refused because a newer leader was seen."""
    told = json.loads(data)
    try:
        gate.admit(Fence(told["task"], told["generation"], told["epoch"]))
    except FencedError:
        return Act(**told, at=at, accepted=False)
    return Act(**told, at=at, accepted=True)


def _moment(notes: list[tuple[int, int, bytes]]) -> int:
    seconds, nanoseconds = _TIMESPEC.unpack(notes[0][2])
    return int(seconds) * SECOND + int(nanoseconds)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
