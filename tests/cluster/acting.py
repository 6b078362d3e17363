"""Clients of a hub that act without an end through its proxy, and note what was answered.

Usage: python -m tests.cluster.acting ADDRESS NAME, with the token in $ROTA_TOKEN. Each client makes tokens
on a kept connection and reads the queue on a fresh one. Ends when its standard input does, and prints as JSON
the names that were answered and the failures.
"""

import http.client
import json
import os
import secrets
import socket
import ssl
import sys
import threading

from tests.cluster.client import BROKEN, LONGEST, PORT

CLIENTS = 3
PAUSE = 0.15  # seconds between two acts of one client


class _Named(http.client.HTTPSConnection):
    """A connection to an address that asks for a name."""

    def __init__(self, address: str, name: str, context: ssl.SSLContext) -> None:
        super().__init__(name, PORT, timeout=LONGEST, context=context)
        self._create_connection = lambda _, *rest: socket.create_connection((address, PORT), *rest)


class Actors:
    """All of them. `made` are the names of what was answered as made."""

    def __init__(self, address: str, name: str, token: str) -> None:
        # The certificate is self-signed: the one that is there now is the one to be believed.
        self._context = ssl.create_default_context(cadata=ssl.get_server_certificate((address, PORT)))
        self._address, self._name = address, name
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._stop = threading.Event()
        self.made: list[str] = []
        self.failed: list[str] = []

    def run(self) -> None:
        """Act until standard input ends."""
        threads = [threading.Thread(target=self._act) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        self._stop.set()
        for thread in threads:
            thread.join()

    def _act(self) -> None:
        kept = self._connect()
        while not self._stop.wait(PAUSE):
            name = f"act-{secrets.token_hex(6)}"
            try:
                body = {"name": name, "scopes": ["hub:read"], "days": 1}
                self._ask(kept, "POST", "/api/tokens", json.dumps(body))
                self.made.append(name)
                fresh = self._connect()
                self._ask(fresh, "GET", "/api/queue")
                fresh.close()
            except BROKEN as error:
                self.failed.append(repr(error))
                kept = self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        return _Named(self._address, self._name, self._context)

    def _ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: str | None = None
    ) -> None:
        connection.request(method, path, body, self._headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status not in (http.client.OK, http.client.CREATED):
            raise http.client.HTTPException(f"{method} {path}: {answer.status}: {text[:200]!r}")


def main(address: str, name: str) -> None:
    """Act until standard input ends."""
    actors = Actors(address, name, os.environ["ROTA_TOKEN"])
    actors.run()
    print(json.dumps({"made": actors.made, "failed": actors.failed}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
