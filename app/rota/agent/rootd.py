"""Asking rootd. It blocks."""

import json
import socket
from pathlib import Path
from typing import Any

from rota.agent.units import UnitsError

SOCKET = Path("/run/rota-rootd.socket")
PATIENCE = 2000.0  # seconds: unpacking a large artifact takes long
LONGEST = 65_536  # bytes of an answer


def ask(path: Path, verb: str, descriptor: int | None = None, **fields: object) -> dict[str, Any]:
    """Return what rootd answers to a verb. Raises UnitsError with its reason."""
    request = json.dumps({"verb": verb, **fields}).encode()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as peer:
            peer.settimeout(PATIENCE)
            peer.connect(str(path))
            if descriptor is not None:
                sent = socket.send_fds(peer, [request[:1]], [descriptor])
                peer.sendall(request[sent:])
            else:
                peer.sendall(request)
            peer.shutdown(socket.SHUT_WR)
            with peer.makefile("rb") as stream:
                answer = json.loads(stream.read(LONGEST))
    except (OSError, ValueError) as error:
        raise UnitsError(f"rootd cannot be asked to {verb}: {error}") from error
    if "done" not in answer:
        raise UnitsError(f"rootd: {answer.get('refused') or answer.get('failed')}")
    done: dict[str, Any] = answer["done"]
    return done
