"""How a command talks to the hub: where it is, the token, and what an answer says."""

import http.client
import json
import os
import ssl
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from rota import __version__
from rota.errors import RotaError
from rota.logging import escaped

TIMEOUT = 30.0  # seconds
DEFAULT_URL = "http://127.0.0.1:8420"


@dataclass(frozen=True)
class Target:
    """A hub, and who we are to it."""

    url: str
    token: str


@dataclass(frozen=True)
class Kept:
    """What `rota login` keeps. `token_id` is the number of a token that it made itself."""

    url: str
    token: str
    token_id: int | None


def credentials_file() -> Path:
    """Return where `rota login` keeps the hub's address and the token."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "rota" / "credentials.json"


def target() -> Target:
    """Return the hub to talk to: from ROTA_URL and ROTA_TOKEN, else from `rota login`.

    Raises RotaError where the file of `rota login` cannot be read.
    """
    known = kept() or Kept(DEFAULT_URL, "", None)
    url = os.environ.get("ROTA_URL") or known.url
    return Target(url.rstrip("/"), os.environ.get("ROTA_TOKEN") or known.token)


def kept() -> Kept | None:
    """Return what `rota login` keeps, None where it keeps nothing. Raises RotaError."""
    path = credentials_file()
    try:
        return Kept(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise RotaError(f"{path} cannot be read: {error}: remove it, and run `rota login` again") from error


def keep(login: Kept) -> None:
    """Keep a login where only this user can read it, whole or not at all. Raises RotaError."""
    path = credentials_file()
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(asdict(login), file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise RotaError(f"{path} cannot be written: {error.strerror}") from error


def forget() -> None:
    """Remove what `rota login` keeps."""
    credentials_file().unlink(missing_ok=True)


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
