"""What the agent asks of its hub over HTTP. It blocks: an event loop runs it in a thread."""

import http.client
from collections.abc import Mapping
from urllib.parse import urlsplit

from rota.errors import RotaError

PATIENCE = 10.0  # seconds
LONGEST = 1024 * 1024  # bytes of an answer


class UnreachedError(RotaError):
    """The hub cannot be reached, or answered nothing that it should; it is worth trying again."""


def call(
    url: str, method: str, target: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Return status and body of an answer, at most LONGEST bytes. Raises UnreachedError."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=PATIENCE)
    try:
        connection.request(method, parts.path.rstrip("/") + target, body or None, dict(headers or {}))
        with connection.getresponse() as response:
            return response.status, response.read(LONGEST)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UnreachedError(f"{url}{target}: {error or type(error).__name__}") from error
    finally:
        connection.close()
