"""Whether a request that changes something comes from a page of the hub itself."""

from http import HTTPStatus

from falcon.asgi import Request

from rota.web.peer import Peers
from rota.web.problems import Problem

SAFE = ("GET", "HEAD", "OPTIONS")


def check_origin(req: Request, peers: Peers) -> None:
    """Raise Problem where a browser says that another site makes it ask, or does not say who does.

    Every browser of today sends Sec-Fetch-Site, over plain http to another
    host than its own all the same only Origin.
    """
    if req.method in SAFE:
        return
    site = req.get_header("Sec-Fetch-Site")
    if site is not None:
        good = site in ("same-origin", "none")
    else:
        good = (req.get_header("Origin") or "").lower() == peers.origin(req)
    if not good:
        raise Problem(
            HTTPStatus.FORBIDDEN,
            "From another site",
            "This changes something, and does not come from a page of this hub.",
            "Use the hub's own page; a program sends an API token, and no cookie.",
        )
