"""The socket: one request for each connection, from root or the agent's user, logged before it is done."""

import array
import json
import os
import pwd
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from rota.rootd.fields import LONGEST_REQUEST, RefusedError, parsed
from rota.rootd.places import Places
from rota.rootd.verbs import VERBS, act

USER = "rota"
IDLE = 30.0  # seconds without a request after which rootd ends; systemd starts it at the next
PATIENCE = 10.0  # seconds that a peer may take
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
SHOWN = ("copy", "sha256", "port", "size")

Log = Callable[[str], None]


def say(line: str) -> None:
    """Write a line to the journal."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def serve(listening: socket.socket, places: Places, log: Log = say, idle: float = IDLE) -> None:
    """Answer until nobody has asked for a while."""
    listening.settimeout(idle)
    while True:
        try:
            peer, _ = listening.accept()
        except TimeoutError:
            return
        with peer:
            try:
                answer(peer, places, log)
            except OSError as error:
                log(f"a peer went away: {error}")


def answer(peer: socket.socket, places: Places, log: Log) -> None:
    """Answer one request. What is wrong with it is told, and logged."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, uid, _ = CREDENTIALS.unpack(credentials)
    descriptors, reply = list[int](), dict[str, Any]()
    try:
        if uid not in {0, *(each.pw_uid for each in pwd.getpwall() if each.pw_name == USER)}:
            raise RefusedError("this user may ask for nothing")  # noqa: TRY301
        request = parsed(_received(peer, descriptors))
        log(f"asked uid={uid} pid={pid} {_shown(request)}")
        reply = {"done": act(places, request, descriptors[0] if descriptors else None)}
    except RefusedError as error:
        reply = {"refused": str(error)}
    except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        reply = {"failed": f"{type(error).__name__}: {error}"}
    finally:
        for each in descriptors:
            os.close(each)
    log(f"answered uid={uid} pid={pid} {json.dumps(reply)}")
    peer.sendall(json.dumps(reply).encode() + b"\n")


def _received(peer: socket.socket, descriptors: list[int]) -> bytes:
    """Read until the peer has shut down its side, within time and size; gather what descriptors come."""
    data, until, size = bytearray(), time.monotonic() + PATIENCE, array.array("i").itemsize
    while True:
        peer.settimeout(max(0.001, until - time.monotonic()))
        try:
            piece, messages, flags, _ = peer.recvmsg(65536, socket.CMSG_SPACE(size), socket.MSG_CMSG_CLOEXEC)
        except TimeoutError as error:
            raise RefusedError(f"the request did not end within {PATIENCE:.0f} s") from error
        for level, kind, content in messages:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.extend(array.array("i", content[: len(content) - len(content) % size]))
        if flags & socket.MSG_CTRUNC or len(descriptors) > 1:
            raise RefusedError("more than one descriptor was passed")
        if not piece:
            return bytes(data)
        data += piece
        if len(data) > LONGEST_REQUEST:
            raise RefusedError(f"the request is longer than {LONGEST_REQUEST} bytes")


def _shown(request: dict[str, Any]) -> str:
    """Say what is asked, with no value of a configuration and no control character."""
    verb = request.get("verb")
    known = verb if isinstance(verb, str) and verb in VERBS else json.dumps(verb)[:80]
    fields = (f"{name}={json.dumps(request[name])[:120]}" for name in SHOWN if name in request)
    return " ".join([f"verb={known}", *fields])
