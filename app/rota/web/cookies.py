"""The cookie of a session."""

from datetime import UTC, datetime
from typing import Any

from falcon.asgi import Request, Response

from rota.web.peer import Peers

# A browser keeps to `__Host-`: only this host itself, over https, can have set such a cookie.
SECURE, PLAIN = "__Host-rota-session", "rota-session"
PAST = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST = 400 * 86400  # seconds; more no browser keeps. The hub ends a session that is not used much earlier


class SessionCookie:
    """Reads, sets and clears it.

    SameSite is Lax, not Strict: whoever follows a link to the hub from a mail or a chat is signed in.
    What changes something is guarded by Sec-Fetch-Site and Origin besides (`rota.web.origin`).
    """

    def __init__(self, peers: Peers) -> None:
        """Ask these whether the browser speaks https."""
        self._peers = peers

    def value(self, req: Request) -> str:
        """Return its value; empty where there is none."""
        values = req.get_cookie_values(self._name(req))
        return values[0] if values else ""

    def set(self, req: Request, resp: Response, value: str) -> None:
        """Give it to the browser."""
        self._set(req, resp, value, max_age=LONGEST)

    def clear(self, req: Request, resp: Response) -> None:
        """Take it from the browser."""
        self._set(req, resp, "", expires=PAST)

    def _set(self, req: Request, resp: Response, value: str, **until: Any) -> None:
        resp.set_cookie(
            self._name(req),
            value,
            **until,
            path="/",
            secure=self._peers.https(req),
            http_only=True,
            same_site="Lax",
        )

    def _name(self, req: Request) -> str:
        return SECURE if self._peers.https(req) else PLAIN
