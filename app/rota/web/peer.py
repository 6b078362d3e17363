"""Where a request comes from: believed of a proxy that the settings trust, else only what the socket says."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from falcon.asgi import Request

Address = IPv4Address | IPv6Address
UNKNOWN = "unknown"


class Peers:
    """Knows which peers are proxies. Of an identity header nothing is believed, whoever sends it."""

    def __init__(self, trusted: Iterable[str]) -> None:
        """Trust these networks."""
        self._trusted: list[IPv4Network | IPv6Network] = [ip_network(each) for each in trusted]

    def https(self, req: Request) -> bool:
        """Tell whether the browser speaks https, to the proxy if not to us."""
        return self._from_proxy(req) and req.get_header("X-Forwarded-Proto") == "https"

    def origin(self, req: Request) -> str:
        """Return the origin that a page of ours has in this browser, as its Origin header names it."""
        return f"{'https' if self.https(req) else 'http'}://{req.get_header('Host') or ''}".lower()

    def client(self, req: Request) -> str:
        """Return the client's address: the last that a proxy added, or the socket's own."""
        if self._from_proxy(req):
            forwarded = req.get_header("X-Forwarded-For") or ""
            said = _address(forwarded.rpartition(",")[2].strip())
            if said is not None:
                return str(said)
        peer = _peer(req)
        return str(peer) if peer is not None else UNKNOWN

    def _from_proxy(self, req: Request) -> bool:
        peer = _peer(req)
        return peer is not None and any(peer in network for network in self._trusted)


def _peer(req: Request) -> Address | None:
    client = req.scope.get("client")
    return _address(str(client[0])) if client else None


def _address(text: str) -> Address | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
