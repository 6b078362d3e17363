"""A port of this machine that leads to a port of a host, so that a browser here can look at what runs there.

A socket keeps the network it was opened in. So the one that listens is opened here and passed on to a process
that lives in the host's network and connects there, to the host's loopback.
"""

import asyncio
import os
import socket
import sys
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
    try:
        asyncio.run(_serve(socket.socket(fileno=descriptor), port))
    except KeyboardInterrupt:
        return


async def _serve(listening: socket.socket, port: int) -> None:
    async def pair(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(LOOPBACK, port)
        except OSError:
            writer.close()  # nothing listens there: the client sees its connection closed
            return
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))

    server = await asyncio.start_server(pair, sock=listening)
    await server.serve_forever()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
    except ConnectionError:
        sink.close()
