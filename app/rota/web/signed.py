"""Requests that a server signed: what is neither a message nor a person's."""

from http import HTTPStatus

from falcon.asgi import Request

from rota.servers.reception import Reception
from rota.web.problems import Problem
from rota.wire.channel import Standing
from rota.wire.errors import UnsignedError, WireError
from rota.wire.request import HEADER, RequestStatement, check, read_header
from rota.wire.rotation import standing


class SignedRequests:
    """Finds out which server asks."""

    def __init__(self, reception: Reception) -> None:
        """Know the servers and their keys as the reception does."""
        self._reception = reception

    async def statement(self, req: Request) -> RequestStatement:
        """Return what a server signed of this very request; its body is the caller's to compare.

        Raises Problem where no enrolled server did.
        """
        try:
            sealed = read_header(req.get_header(HEADER) or "")
            owner = await self._reception.owner(sealed)
            if standing(owner.key, owner.now) is not Standing.ENROLLED:
                raise UnsignedError("the key is good no longer: the server must rotate it, or enrol anew")
            audience = await self._reception.audience()
            asked = req.method, req.relative_uri
            return check(sealed, [owner.key.public], audience, owner.server, asked)
        except WireError as error:
            raise Problem(
                HTTPStatus.UNAUTHORIZED,
                "Not signed by a server",
                f"This is for enrolled servers: {error}.",
                "Enrol the server with `rota server enrol NAME`.",
            ) from error

    async def server(self, req: Request) -> str:
        """Return the name of the server that asks. Raises Problem."""
        return (await self.statement(req)).sender
