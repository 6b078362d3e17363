"""`python -I -m rota.rootd`, started by systemd with the socket."""

import os
import socket
import sys

from rota.rootd import artifacts
from rota.rootd.listener import serve
from rota.rootd.places import Places

FIRST = 3  # the descriptor at which systemd passes the socket


def main() -> None:
    """Serve the socket that systemd passed."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        sys.exit("rootd is started by systemd alone, with rota-rootd.socket")
    os.umask(0o077)
    places = Places()
    places.make()
    artifacts.sweep(places)
    serve(socket.socket(fileno=FIRST), places)


if __name__ == "__main__":
    main()
