"""What a hub says, as the commands print it."""

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from click.testing import CliRunner

from rota.cli import rota
from rota.errors import RotaError

HOSTILE = "\x1b[31mred\x1b]0;title\x07\u202e\r\x9b2J"
WEBHOOK = {"id": HOSTILE, "url": HOSTILE, "kinds": [HOSTILE], "app": HOSTILE, "active": True}
TOKEN = {"id": 1, "account": HOSTILE, "name": HOSTILE, "scopes": [HOSTILE], "state": HOSTILE}
TIMES = {"expires_at": HOSTILE, "tried_at": HOSTILE, "next_at": HOSTILE, "run_after": HOSTILE}
JOB = {"id": 1, "kind": HOSTILE, "state": HOSTILE, "attempts": 1, "error": HOSTILE, "enqueued_at": HOSTILE}
DELIVERY = {"id": 1, "kind": HOSTILE, "state": HOSTILE, "tries": 1, "status": 1, "reason": HOSTILE}
PROBLEM = {"title": HOSTILE, "detail": HOSTILE, "remedy": HOSTILE}


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Be a hub that answers everything with one document and status."""
    answer: dict[str, Any] = {"status": 200}

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(answer["status"])
            self.end_headers()
            self.wfile.write(json.dumps(answer["document"]).encode())

        do_GET = do_POST = answer  # noqa: N815 - the library's names

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    monkeypatch.setitem(os.environ, "ROTA_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setitem(os.environ, "ROTA_TOKEN", "x")
    yield answer
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("command", "document"),
    [
        ("webhook list", {"webhooks": [WEBHOOK]}),
        ("webhook show x", WEBHOOK),
        ("webhook create http://x", {"webhook": WEBHOOK, "secret": HOSTILE}),
        ("webhook deliveries x", {"deliveries": [DELIVERY | TIMES]}),
        ("webhook ping x", DELIVERY),
        ("token list", [TOKEN | TIMES]),
        ("token create x --scope admin", TOKEN | {"token": HOSTILE}),
        ("queue list", [JOB | TIMES]),
        ("queue show 1", JOB | TIMES),
        ("queue retry 1", {"jobs": [1]}),
    ],
)
def test_a_terminal_obeys_nothing_that_a_hub_says(
    say: dict[str, Any], command: str, document: object
) -> None:
    say["document"] = document
    done = CliRunner().invoke(rota, command.split())
    assert done.exit_code == 0, done.exception
    assert harmless(done.output)
    say |= {"status": 400, "document": PROBLEM}
    refused = CliRunner().invoke(rota, command.split())
    assert isinstance(refused.exception, RotaError)
    assert "red" in str(refused.exception)
    assert harmless(str(refused.exception))


def harmless(text: str) -> bool:
    """Tell whether there is nothing in a text but letters, signs and ends of lines."""
    return all(sign.isprintable() or sign == "\n" for sign in text)
