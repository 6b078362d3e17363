"""A port of this machine that leads to a port of a host, so that a browser here can look at what runs there.

A socket keeps the network it was opened in. So the one that listens is opened here and passed on to a process
that lives in the host's network and connects there, to the host's loopback.
"""

import os
import socket
import sys
import threading
from pathlib import Path

from lab import names, switch
from lab.commands import program
from lab.errors import LabError
from lab.guest import LABCTL

LOOPBACK = "127.0.0.1"
_CHUNK = 65536


def listen(port: int) -> socket.socket:
    """Open a port of this machine's loopback; LabError if it is taken."""
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise LabError(
            f"port {port} of this machine cannot be opened ({error.strerror}): name another"
        ) from error


def argv(lab: str, host: str, port: int, listening: socket.socket) -> list[str]:
    """Return the argv of the process that forwards; it must inherit the listening socket."""
    again = [
        sys.executable,
        str(LABCTL),
        "forward",
        f"--descriptor={listening.fileno()}",
        lab,
        host,
        str(port),
    ]
    return [program("nsenter"), *switch.inside(names.host_netns(lab, host), again)[1:]]


def running(lab: str, host: str) -> bool:
    """Say whether any port leads to a host already."""
    for pid in switch.processes(names.host_netns(lab, host)):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:  # it ended while we looked
            continue
        if b"forward" in words and os.fsencode(LABCTL) in words:
            return True
    return False


def become(lab: str, host: str, port: int, listening: socket.socket) -> None:
    """Turn the calling process into the one that forwards; never returns."""
    listening.set_inheritable(True)
    command = argv(lab, host, port, listening)
    os.execv(command[0], command)


def serve(descriptor: int, port: int) -> None:
    """Forward, from inside a host's network, until interrupted."""
    with socket.socket(fileno=descriptor) as listening:
        try:
            while True:
                near, _ = listening.accept()
                threading.Thread(target=_join, args=(near, port), daemon=True).start()
        except KeyboardInterrupt:
            return


def _join(near: socket.socket, port: int) -> None:
    """Carry one connection both ways until both ends have said all."""
    with near:
        try:
            far = socket.create_connection((LOOPBACK, port))
        except OSError:
            return  # nothing listens there: the client sees its connection closed
        with far:
            back = threading.Thread(target=_pump, args=(far, near), daemon=True)
            back.start()
            _pump(near, far)
            back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(_CHUNK):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return  # one end is gone, and the other pump sees it too
