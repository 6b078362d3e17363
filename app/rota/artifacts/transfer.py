"""One kept-alive connection to a hub, for what is too large for a document. It may block."""

import http.client
import json
import os
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import SplitResult, urlsplit

from rota.errors import RotaError

TIMEOUT = 60.0  # seconds without a byte
LONGEST = 64 * 1024 * 1024  # bytes of an answer that is read as a whole

# (method, target) → headers that say who asks.
Signing = Callable[[str, str], Mapping[str, str]]


class TransferError(RotaError):
    """Something could not be sent or fetched; what has come is kept, and the next try goes on from there."""


class WrongError(TransferError):
    """What the other side has is not what was asked for; another try will not help."""


class RefusedError(TransferError):
    """The other side answered, and said no. `status` is HTTP's."""

    def __init__(self, message: str, status: int) -> None:
        """Carry both."""
        super().__init__(message)
        self.status = status


class Line:
    """A connection. After an error it is closed, and the next request opens another."""

    def __init__(self, url: str, signing: Signing) -> None:
        """Talk to the hub at this address, with headers made for each request."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise TransferError(
                f"{url!r} is not the address of a hub: write https://NAME or http://HOST:PORT"
            )
        self._url, self._base, self._signing = url, parts.path.rstrip("/"), signing
        self._connection = _connection(parts)

    def __enter__(self) -> Self:
        """Use it for a while."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close it; the next request opens another."""
        self._connection.close()

    def ask(
        self,
        method: str,
        target: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        """Send a request; return an answer of success, its body not yet read. Raises TransferError."""
        whole = self._base + target
        try:
            self._connection.request(method, whole, body, {**self._signing(method, whole), **(headers or {})})
            answer = self._connection.getresponse()
            if answer.status < HTTPStatus.BAD_REQUEST:
                return answer
            said = answer.read(LONGEST)
        except (OSError, http.client.HTTPException) as error:
            raise self.failed(error) from error
        raise RefusedError(f"{self._url} answers {answer.status}: {_said(said)}", answer.status)

    def failed(self, error: Exception) -> TransferError:
        """Close the connection; return what to raise."""
        self._connection.close()
        return TransferError(f"{self._url} cannot be reached: {str(error) or type(error).__name__}")

    def read(self, answer: http.client.HTTPResponse) -> bytes:
        """Return the whole of a short answer. Raises TransferError."""
        try:
            data = answer.read(LONGEST + 1)
        except (OSError, http.client.HTTPException) as error:
            raise self.failed(error) from error
        if len(data) > LONGEST:
            self._connection.close()
            raise TransferError(f"{self._url} answers more than {LONGEST} bytes where a document was due")
        return data


def _said(data: bytes) -> str:
    try:
        document = json.loads(data)
        return f"{document.get('detail') or document['title']} {document.get('remedy', '')}".strip()
    except (ValueError, KeyError, TypeError, AttributeError):
        return data[:200].decode("utf-8", "replace")


def _connection(parts: SplitResult) -> http.client.HTTPConnection:
    """Return a connection to the host of an address, not yet opened."""
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT)
    import ssl  # noqa: PLC0415 - an agent never loads it

    context = ssl.create_default_context(cafile=os.environ.get("ROTA_CA") or None)
    return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=TIMEOUT, context=context)
