"""How a command talks to the hub: where it is, the token, and what an answer says."""

import http.client
import json
import os
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import click

from rota import __version__
from rota.cli import contexts
from rota.errors import RotaError
from rota.logging import escaped

TIMEOUT = 30.0  # seconds
DEFAULT_URL = "http://127.0.0.1:8420"


@dataclass(frozen=True)
class Target:
    """A hub, and who we are to it."""

    url: str
    token: str


def target() -> Target:
    """Return the hub to talk to.

    `rota --context` names it whole. Else ROTA_URL and ROTA_TOKEN say where and who, and what
    they leave open is that of the context in use. A kept token goes to its own hub alone.

    Raises RotaError where what `rota login` keeps cannot be read, NotFoundError for no such context.
    """
    if contexts.optioned():
        context = contexts.read().named(contexts.optioned())
        return Target(context.url, context.token)
    url, token = os.environ.get("ROTA_URL", "").rstrip("/"), os.environ.get("ROTA_TOKEN", "")
    if url and token:
        return Target(url, token)
    known = contexts.read()
    if url:
        kept = next((each.token for each in known.known.values() if each.url == url), "")
        return Target(url, kept)
    name = contexts.chosen() or known.current
    if name:
        context = known.named(name)
        return Target(context.url, token or context.token)
    if known.known:
        raise RotaError(
            "no context is in use: `rota context use NAME` chooses one, `rota context list` shows all"
        )
    return Target(DEFAULT_URL, token)


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


def tell(line: str, *, err: bool = False) -> None:
    """Print one line of what the hub said: whatever it holds, a terminal shows it and does not obey it."""
    click.echo(escaped(line).rstrip(), err=err)


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
        raise RotaError("not signed in, or the token is good no longer: run `rota login`, or set ROTA_TOKEN")
    said = f"{document.get('detail') or document['title']} {document.get('remedy', '')}"
    raise RotaError(escaped(said.strip()))
