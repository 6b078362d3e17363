"""A hub that only gives artifacts, and cuts connections where a test wants it to."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from rota.artifacts.chunking import written
from rota.artifacts.store import ArtifactStore


class ArtifactServer:
    """Serves a store on loopback. `cut_after` bytes of one answer its connection is cut, `cuts` times."""

    def __init__(self, store: ArtifactStore) -> None:
        self.store = store
        self.asked: list[str] = []
        self.sent = 0
        self.cut_after, self.cuts = 0, 1
        there = self

        class Handler(BaseHTTPRequestHandler):
            """One connection."""

            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                there.asked.append(self.headers["Asked"])
                there.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Serve no more."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        _, _, artifact, *rest = handler.path.split("/")
        if rest:
            data = written(self.store.chunks(artifact))
            handler.send_response(200)
            start, end = 0, len(data)
        else:
            data = self.store.path(artifact).read_bytes()
            first, last = handler.headers["Range"].removeprefix("bytes=").split("-")
            start, end = int(first), int(last) + 1
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        handler.send_header("Content-Length", str(end - start))
        handler.end_headers()
        if not rest and self.cut_after and self.cuts and end - start > self.cut_after:
            self.cuts -= 1
            end = start + self.cut_after
            handler.close_connection = True
        handler.wfile.write(data[start:end])
        self.sent += 0 if rest else end - start
