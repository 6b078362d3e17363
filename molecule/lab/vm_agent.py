"""The agent of an emulated machine, and its PID 1: runs commands for whoever asks on the lab's network.

A request is one line of JSON, ``{"argv": [...], "input": "text"}``. The answer is lines of JSON:
``{"to": 1, "text": "..."}`` for what the command says (2 is its standard error), as it says it, and
``{"status": 0}`` last. A command outlives the connection that asked for it: a pulled cable ends no process.

It is copied into the machine and runs there alone, so it imports nothing of ours.
"""

import contextlib
import json
import os
import socket
import socketserver
import subprocess
import threading
from pathlib import Path
from typing import IO

PORT = 7777
MOUNTS = (
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("devpts", "/dev/pts"),
    ("tmpfs", "/run"),
    ("tmpfs", "/tmp"),  # noqa: S108 - the machine's own
)
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}


class Server(socketserver.ThreadingTCPServer):
    """Listens on every address of the machine, which nobody outside the lab can reach."""

    allow_reuse_address = True
    daemon_threads = True


class Request(socketserver.StreamRequestHandler):
    """One command."""

    def setup(self) -> None:
        """Let many small answers go out at once, one by one."""
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lock = threading.Lock()

    def handle(self) -> None:
        """Run what is asked for, and answer."""
        asked = json.loads(self.rfile.readline() or b"{}")
        if not asked:  # somebody only looked whether we are here
            return
        try:
            process = subprocess.Popen(
                asked["argv"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=ENVIRONMENT,
                cwd="/root",
            )
        except OSError as error:
            self.answer({"to": 2, "text": f"{asked['argv'][0]}: {error.strerror}\n"})
            self.answer({"status": 127})
            return
        readers = [
            threading.Thread(target=self.pass_on, args=(stream, number))
            for number, stream in ((1, process.stdout), (2, process.stderr))
            if stream
        ]
        for reader in readers:
            reader.start()
        if process.stdin:
            with contextlib.suppress(BrokenPipeError), process.stdin as stream:  # it need not read
                stream.write(asked.get("input", ""))
        status = process.wait()
        for reader in readers:
            reader.join()
        self.answer({"status": status})

    def pass_on(self, stream: IO[str], number: int) -> None:
        """Pass on what the command says, line by line."""
        for line in stream:
            self.answer({"to": number, "text": line})

    def answer(self, message: dict[str, object]) -> None:
        """Send one line, unless nobody listens any more."""
        with self.lock:
            try:
                self.wfile.write(json.dumps(message).encode() + b"\n")
            except OSError:
                return


def main() -> None:
    """Make what a booted system would have made, and serve; never returns."""
    os.environ.update(ENVIRONMENT)
    for kind, target in MOUNTS:
        Path(target).mkdir(exist_ok=True)
        if not os.path.ismount(target):
            subprocess.run(["mount", "-t", kind, kind, target], check=True)
    socket.sethostname(Path("/etc/hostname").read_text().strip())
    with Server(("", PORT), Request) as server:
        print("lab: the agent is up", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
