"""Asks the agent of an emulated machine to run a command. A program of its own, on the lab's network."""

import json
import socket
import sys
import time
from pathlib import Path

from lab.errors import LabError
from lab.vm_agent import PORT

_CONNECT = 60.0  # seconds a machine that is up may take to accept a connection, on a loaded computer
_KNOCK = 1.0  # seconds between two questions whether it is up
_LABCTL = Path(__file__).resolve().parents[1] / "labctl"


def argv(ip: str, *command: str, text: Path | None = None) -> list[str]:
    """Return the arguments of Python that run a command in a machine; none waits until it answers. Pure."""
    given = [f"--input={text.resolve()}"] if text else []
    return [str(_LABCTL), "vm", "talk", *given, ip, *(["--", *command] if command else [])]


def knock(ip: str) -> None:
    """Wait until an agent answers, for as long as it may take."""
    while True:
        began = time.monotonic()
        try:
            socket.create_connection((ip, PORT), timeout=_KNOCK).close()
        except OSError:
            time.sleep(max(0.0, _KNOCK / 4 - (time.monotonic() - began)))
        else:
            return


def talk(ip: str, command: list[str], text: str) -> int:
    """Have a command run, pass on what it says, and return its exit status.

    Raises:
        LabError: the agent does not answer, or the connection broke.

    """
    try:
        with socket.create_connection((ip, PORT), timeout=_CONNECT) as connection:
            connection.settimeout(None)
            connection.sendall(json.dumps({"argv": command, "input": text}).encode() + b"\n")
            with connection.makefile("rb") as answers:
                for line in answers:
                    message = json.loads(line)
                    if "status" in message:
                        status: int = message["status"]
                        return status if status >= 0 else 128 - status
                    stream = sys.stdout if message["to"] == 1 else sys.stderr
                    stream.write(message["text"])
                    stream.flush()
    except OSError as error:
        raise LabError(f"the machine at {ip} does not answer ({error}): is it cut off?") from error
    raise LabError(f"the machine at {ip} went away before the command ended")
