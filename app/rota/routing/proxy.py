"""The seam to what takes requests for apps: HAProxy, or nothing, where each instance is reached by itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from rota.coordination.epoch import Fence
from rota.routing.table import AppRoutes

log = structlog.get_logger("rota.routing")


@dataclass(frozen=True)
class Certificate:
    """What is served for one name: `pem` holds the certificate, its chain and its key."""

    name: str
    pem: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """All that the proxy should do.

    `keys` verify the gates' tokens, the one that signs first; `revoked` are the
    ids of tokens that are good no longer.
    """

    apps: Sequence[AppRoutes]
    certificates: Sequence[Certificate] = ()
    keys: Sequence[str] = field(default=(), repr=False)
    revoked: Sequence[str] = ()


class Proxy(Protocol):
    """Does what it is told, and says what it was seen to have done."""

    async def apply(self, wanted: Wanted, fence: Fence) -> dict[str, str]:
        """Bring every app's requests where they should go.

        Return, for each app that could not be, the reason; the others do as
        wanted, which was read back. Raises RotaError where nothing can be said
        of any, FencedError where another process leads. Whatever fails, the last
        good state stays.
        """

    async def close(self) -> None:
        """Let go of what is open."""


class NoProxy:
    """Says where each instance listens, whenever that changes."""

    def __init__(self) -> None:
        """Have said nothing yet."""
        self._said: dict[str, tuple[str, ...]] = {}

    async def apply(self, wanted: Wanted, fence: Fence) -> dict[str, str]:  # noqa: ARG002 - the seam's
        """Log the addresses of what is new."""
        for routes in wanted.apps:
            live = tuple(f"http://{each.address}:{each.port}" for each in routes.targets if not each.standby)
            if live != self._said.get(routes.app, ()):
                log.info("app listens", app=routes.app, at=" ".join(live) or "nowhere")
            self._said[routes.app] = live
        return {}

    async def close(self) -> None:
        """Do nothing."""
