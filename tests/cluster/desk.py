"""An operator of the hub under test: signed in, with a token, calling one web process or another."""

import json
import secrets
import subprocess
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from tests.cluster.cluster import INSIDE, Cluster
from tests.cluster.inventory import WEB_PORT, Host
from tests.support.wait import wait_for

SEEN = 20.0  # seconds to wait for what should come within one


@dataclass(frozen=True)
class Said:
    """An answer, and when the request was about to be sent, in nanoseconds since 1970."""

    at: int
    status: int
    headers: dict[str, str]
    body: str

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def web(host: Host) -> str:
    """Return where the first web process of a host listens."""
    return f"http://{host.private}:{WEB_PORT}"


class Desk:
    """Makes an administrator on the primary, once, and calls with a token of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        name, password = f"operator-{secrets.token_hex(3)}", secrets.token_urlsafe(16)
        cluster.on(
            cluster.inventory.primary,
            *("/usr/bin/python3", "-I", "-c", _FEED, password),
            *("rota", "admin", "create", name, "--password-stdin"),
        )
        host, origin = cluster.inventory.primary, web(cluster.inventory.primary)
        form = urlencode({"name": name, "password": password, "to": "/"})
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": origin}
        signed_in = self._send(host, "POST /sign-in", headers, form)
        assert signed_in.status == 303, signed_in
        self._headers = {"Cookie": signed_in.headers["set-cookie"].partition(";")[0], "Origin": origin}
        made = self.call(host, "POST", "/api/tokens", {"name": name, "scopes": ["admin"]})
        assert made.status == 201, made
        self.token = made.document["token"]
        self._headers = {"Authorization": f"Bearer {self.token}"}

    def call(self, host: Host, method: str, path: str, body: object = None) -> Said:
        """Call a host's web process, from that host."""
        headers = {**self._headers, "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        return self._send(host, f"{method} {path}", headers, "" if body is None else json.dumps(body))

    def act(self, host: Host) -> tuple[str, Said]:
        """Do something through a host that everyone may hear of; return the act's subject and the answer."""
        name = f"made-{secrets.token_hex(4)}"
        made = self.call(host, "POST", "/api/tokens", {"name": name, "scopes": ["hub:read"], "days": 1})
        assert made.status == 201, made
        return name, made

    def follow(self, host: Host, topic: str) -> "Stream":
        """Follow a host's stream of live events."""
        return Stream(self.cluster, host, f"{web(host)}/live?topic={topic}", self._headers)

    def _send(self, host: Host, request: str, headers: dict[str, str], body: str) -> Said:
        method, _, path = request.partition(" ")
        out = self.cluster.program(host, "call", method, f"{web(host)}{path}", json.dumps(headers), body)
        at, status, got, text = json.loads(out)
        return Said(at, status, {name.lower(): value for name, value in got.items()}, text)


class Stream:
    """What a host's live stream says, line by line with its times."""

    def __init__(self, cluster: Cluster, host: Host, url: str, headers: dict[str, str]) -> None:
        text = (INSIDE / "follow.py").read_text()
        argv = ("/usr/bin/python3", "-I", "-c", text, url, json.dumps(headers))
        self._process = subprocess.Popen(
            cluster.labctl.argv("exec", host.name, "--", *argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        assert self.next()[1] == "open"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Its standard input ends; a signal would reach nothing but what entered the host for it.
        self._process.communicate(timeout=10)

    def next(self) -> tuple[int, str]:
        """Return the next line and when it came."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the stream ended"
        at, text = json.loads(line)
        return at, text

    def until(self, wanted: str) -> int:
        """Return when a line that holds this came."""
        while True:
            at, text = self.next()
            if wanted in text:
                return at


def entries(cluster: Cluster, host: Host, directory: str) -> list[str]:
    """Return what a host finds in a log's files."""
    text = (INSIDE / "entries.py").read_text()
    out = cluster.on(
        host, "runuser", "--user", "rota", "--", "/opt/rota/current/bin/python", "-c", text, directory
    )
    found: list[str] = json.loads(out)
    return found


def published(desk: Desk, host: Host) -> tuple[int, str]:
    """Return the size and the root of the checkpoint that a host serves."""
    said = desk.call(host, "GET", "/log/checkpoint")
    if said.status != 200:
        return 0, ""
    _, size, root, *_ = said.body.split("\n")
    return int(size), root


def await_entry(desk: Desk, host: Host, index: int) -> str:
    """Wait until a host serves an entry, and return it."""
    wait_for(lambda: published(desk, host)[0] > index, SEEN)
    return desk.call(host, "GET", f"/log/entries/{index}/bytes").body


# Feeds a line to a command's standard input: a host's own exec has none.
_FEED = """
import subprocess, sys
sys.exit(subprocess.run(sys.argv[2:], input=sys.argv[1] + chr(10), text=True).returncode)
"""
