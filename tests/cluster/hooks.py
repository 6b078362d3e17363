"""A receiver of webhooks: writes down when each came, from where, and which.

Usage: python -m tests.cluster.hooks ADDRESS PORT FILE. Runs on the lab's network until it is ended. What is
sent to /slow is answered after SLOW seconds.
"""

import json
import sys
import threading
import time
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SLOW = 2.0


@dataclass(frozen=True)
class Hook:
    """One request: when it had come whole, in nanoseconds since 1970, and from which address."""

    at: int
    peer: str
    path: str
    id: str
    body: dict[str, Any]

    @property
    def entry(self) -> int:
        """The index of the act that it tells of."""
        return int(self.body["data"]["entry"])


def read_hooks(text: str) -> list[Hook]:
    """Return what a receiver has written down so far."""
    return [Hook(**json.loads(line)) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def main(address: str, port: int, file: Path) -> None:
    """Receive until ended."""
    lock = threading.Lock()

    class Receiver(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            hook = Hook(time.time_ns(), self.client_address[0], self.path, self.headers["webhook-id"], body)
            with lock, file.open("a") as out:
                out.write(json.dumps(asdict(hook)) + "\n")
            if self.path.startswith("/slow"):
                threading.Event().wait(SLOW)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Write nothing else."""

    with ThreadingHTTPServer((address, port), Receiver) as server:
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
