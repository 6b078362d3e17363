"""The socket that we make ourselves, so that what is wrong with it is said clearly."""

import socket

from rota.errors import RotaError

BACKLOG = 2048


def listen(address: str) -> socket.socket:
    """Return a listening socket on HOST:PORT. Raises RotaError, which a restart may mend."""
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(BACKLOG)
    except (OSError, UnicodeError) as error:  # a name that cannot be one fails in its encoding
        reason = getattr(error, "strerror", None) or error
        raise RotaError(
            f"server.address: {address}: {reason}: stop what listens there, "
            "or set another address (ROTA_SERVER_ADDRESS)"
        ) from error
    return listener
