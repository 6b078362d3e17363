"""Who asks: read from a request's bearer token."""

from falcon.asgi import Request

from rota.access.principal import Principal
from rota.access.scopes import Scope
from rota.hub import Hub


class Credentials:
    """Finds the caller of a request."""

    def __init__(self, hub: Hub) -> None:
        """Know this hub's accounts."""
        self._hub = hub

    async def caller(self, req: Request) -> Principal | None:
        """Return who asks; None where nobody is signed in."""
        given = bearer(req)
        if self._hub.settings.tlog.read_token.matches(given):
            return Principal(0, "tlog.read_token", frozenset({Scope.TLOG_READ}), token=0)
        return None


def bearer(req: Request) -> str:
    """Return the bearer token of a request; empty where it has none."""
    sent = (req.auth or "").encode("latin-1").decode(errors="replace")  # header bytes come as Latin-1
    scheme, _, given = sent.partition(" ")
    return given.strip() if scheme.casefold() == "bearer" else ""
