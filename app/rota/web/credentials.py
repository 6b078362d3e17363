"""Who asks: by the bearer token of a request, or by the cookie of a session."""

from collections.abc import Collection

from falcon.asgi import Request

from rota.access.principal import Principal
from rota.hub import Hub
from rota.store.callers import Callers
from rota.store.sessions import Sessions
from rota.store.tokens import Tokens
from rota.web.cookies import SessionCookie


class Credentials:
    """Finds the caller of a request, and whether callers may still stay. No other header says who asks."""

    def __init__(self, hub: Hub, cookie: SessionCookie) -> None:
        """Know this hub's accounts."""
        self._sessions = Sessions(hub.database)
        self._tokens = Tokens(hub.database)
        self._callers = Callers(hub.database)
        self._cookie = cookie

    async def caller(self, req: Request) -> Principal | None:
        """Return who asks; None where nobody is signed in. A token counts before a cookie, good or not.

        Raises UnreachableError while there is no database.
        """
        if req.auth:
            token = bearer(req)
            return await self._tokens.caller(token) if token else None
        cookie = self._cookie.value(req)
        return await self._sessions.caller(cookie) if cookie else None

    async def revoked(self, principals: Collection[Principal]) -> set[Principal]:
        """Return those who may no longer stay, by one query.

        They are signed out, expired, revoked or disabled, or have fewer scopes than they had.
        """
        return await self._callers.revoked(principals)


def bearer(req: Request) -> str:
    """Return the bearer token of a request; empty where it has none."""
    sent = (req.auth or "").encode("latin-1").decode(errors="replace")  # header bytes come as Latin-1
    scheme, _, given = sent.partition(" ")
    return given.strip() if scheme.casefold() == "bearer" else ""
