"""How a command talks to the hub: where it is, the token, and what an answer says."""

import http.client
import json
import os
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rota import __version__
from rota.errors import RotaError

TIMEOUT = 30.0  # seconds
DEFAULT_URL = "http://127.0.0.1:8420"


@dataclass(frozen=True)
class Target:
    """A hub, and who we are to it."""

    url: str
    token: str


def credentials_file() -> Path:
    """Return where `rota login` keeps the hub's address and the token."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "rota" / "credentials.json"


def target() -> Target:
    """Return the hub to talk to: from ROTA_URL and ROTA_TOKEN, else from `rota login`.

    Raises RotaError where the file of `rota login` cannot be read.
    """
    kept: dict[str, Any] = {}
    path = credentials_file()
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise RotaError(f"{path} cannot be read: {error}: run `rota login` again") from error
    url = os.environ.get("ROTA_URL") or kept.get("url") or DEFAULT_URL
    return Target(url.rstrip("/"), os.environ.get("ROTA_TOKEN") or kept.get("token") or "")


def call(method: str, path: str, body: object = None, to: Target | None = None) -> Any:
    """Send a request to the hub and return the document that it answers.

    Raises RotaError with what the hub says and its remedy, or why it cannot be reached.
    """
    hub = to or target()
    headers = {"Accept": "application/json", "User-Agent": f"rota/{__version__}"}
    if hub.token:
        headers["Authorization"] = f"Bearer {hub.token}"
    data = None
    if body is not None:
        headers["Content-Type"] = "application/json"
        data = json.dumps(body).encode()
    connection = _connection(hub.url)
    try:
        connection.request(method, urlsplit(hub.url).path + path, data, headers)
        answer = connection.getresponse()
        return _document(answer.status, answer.read(), hub.url)
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise RotaError(
            f"{hub.url} cannot be reached: {reason}: `rota login URL` or ROTA_URL says where the hub is"
        ) from error
    finally:
        connection.close()


def _connection(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RotaError(f"{url!r} is not the address of a hub: write https://NAME or http://HOST:PORT")
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT)
    context = ssl.create_default_context(cafile=os.environ.get("ROTA_CA") or None)
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=TIMEOUT, context=context)


def _document(status: int, data: bytes, url: str) -> Any:
    try:
        document = json.loads(data) if data else None
    except ValueError:
        document = None
        if status < HTTPStatus.BAD_REQUEST:
            raise RotaError(f"{url} does not answer as a hub does: is the address right?") from None
    if status < HTTPStatus.BAD_REQUEST:
        return document
    if not isinstance(document, dict) or "title" not in document:
        raise RotaError(f"{url} answers {status}, and not as a hub does: is the address right?")
    if status == HTTPStatus.UNAUTHORIZED:
        raise RotaError("not signed in: run `rota login`, or set ROTA_TOKEN")
    raise RotaError(f"{document.get('detail') or document['title']} {document.get('remedy', '')}".strip())
