"""Serves the files of one directory, and nothing else: what a build of static files puts into the artifact.

Standard library only, since it runs on the server's own Python: `python3 static_files.py DIRECTORY`.
"""

import os
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HIDDEN = ("Procfile", "rota.toml")
IDLE = 75  # seconds


class Files(SimpleHTTPRequestHandler):
    """One connection. Hidden files, links and lists of directories are not there."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE

    def send_head(self) -> Any:
        """Refuse what is not to be seen; let the library do the rest."""
        root = Path(self.directory).resolve()
        path = Path(self.translate_path(self.path))
        parts = path.relative_to(root).parts if path.is_relative_to(root) else (".",)
        hidden = any(part.startswith(".") and part != ".well-known" for part in parts)
        if hidden or (parts and parts[0] in HIDDEN) or path.resolve() != path:
            self.send_error(404)
            return None
        return super().send_head()

    def list_directory(self, path: Any) -> None:  # noqa: ARG002
        """Show no directory that has no page of its own."""
        self.send_error(404)

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send a file; a client that leaves is no error."""
        try:
            super().copyfile(source, outputfile)
        except ConnectionError:
            self.close_connection = True


class Server(ThreadingHTTPServer):
    """Many connections at once."""

    daemon_threads = True
    request_queue_size = 256


def main() -> None:
    """Serve until told to stop, where HOST and PORT say."""
    directory = str(Path(sys.argv[1]).resolve())
    address = os.environ.get("HOST", "127.0.0.1"), int(os.environ["PORT"])

    def handler(*args: Any) -> Files:
        return Files(*args, directory=directory)

    with Server(address, handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
