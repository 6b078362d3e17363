"""Says hello, where it is, and what it was configured with. Standard library only."""

import json
import os
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GREETING = os.environ.get("GREETING", "Hello")


class Hello(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer every path alike."""
        said = {"greeting": GREETING, "host": socket.gethostname(), "pid": os.getpid(), "path": self.path}
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    address = os.environ.get("HOST", "127.0.0.1"), int(os.environ["PORT"])
    print("listening on", address, flush=True)
    ThreadingHTTPServer(address, Hello).serve_forever()
