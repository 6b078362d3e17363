"""systemd's side channels: readiness, the watchdog, passed sockets."""

import asyncio
import os
import socket

from rota.errors import ConfigurationError


class Notifier:
    """Tells systemd about this service, where there is one to tell.

    Taking the address out of the environment keeps gunicorn's own READY, which
    comes before the app can answer, from being sent.
    """

    def __init__(self, address: str, watchdog_us: int) -> None:
        """Send to this address ("" sends nothing); ping within `watchdog_us` microseconds (0: never)."""
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog = watchdog_us / 1_000_000 / 2 if address else 0.0

    @classmethod
    def from_environment(cls) -> "Notifier":
        """Take over what systemd passed to this process."""
        address = os.environ.pop("NOTIFY_SOCKET", "")
        usec = os.environ.pop("WATCHDOG_USEC", "0")
        os.environ.pop("WATCHDOG_PID", None)
        return cls(address, int(usec) if usec.isdigit() else 0)

    def send(self, *states: str) -> None:
        """Send states such as READY=1. A supervisor that went away is no error."""
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            try:
                channel.sendto("\n".join(states).encode(), self._address)
            except OSError:
                return


async def keep_watchdog(notifier: Notifier) -> None:
    """Tell systemd again and again that the event loop turns."""
    while notifier.watchdog:
        notifier.send("WATCHDOG=1")
        await asyncio.sleep(notifier.watchdog)


def sockets_passed() -> int:
    """Return how many sockets systemd passed to this very process."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return 0
    count = os.environ.get("LISTEN_FDS", "0")
    if not count.isdigit():
        raise ConfigurationError(
            f"LISTEN_FDS is {count!r}, which is no number: start the program through its unit"
        )
    return int(count)
