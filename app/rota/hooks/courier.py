"""One try to deliver: the secret opened, the message signed and sent, what came of it noted."""

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import structlog

from rota.drivers.outbound import Outbound, OutboundError
from rota.errors import ConflictError, KeyFileError
from rota.hooks.message import message_id, signed_headers
from rota.hooks.vault import Vault
from rota.settings import Settings
from rota.store.deliveries import Due

GOOD = range(200, 300)

log = structlog.get_logger("rota.hooks")


@dataclass
class Tries:
    """What this process tried, by how it ended: how often, and for how many seconds together."""

    count: Counter[str] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


@dataclass(frozen=True)
class Outcome:
    """What a try gave: a status, or the reason why there is none."""

    status: int | None
    reason: str = ""

    @property
    def good(self) -> bool:
        """Whether the receiver has it."""
        return self.status is not None and self.status in GOOD

    @property
    def text(self) -> str:
        """Why it has it not."""
        return self.reason or f"the receiver answered {self.status}"


class Courier:
    """Tries deliveries; whoever calls it notes the outcome."""

    def __init__(self, settings: Settings, tries: Tries) -> None:
        """Sign with this hub's secrets, and count here."""
        self._vault = Vault(settings)
        self._outbound = Outbound(settings.webhooks.allow)
        self._tries = tries

    async def deliver(self, due: Due) -> Outcome:
        """Make one try. Never raises for what the receiver does."""
        began = time.perf_counter()
        outcome = await self._send(due)
        result = "delivered" if outcome.good else "failed"
        self._tries.count[result] += 1
        self._tries.seconds[result] += time.perf_counter() - began
        log.info(
            "webhook tried",
            webhook=due.webhook,
            delivery=due.id,
            attempt=due.tries + 1,
            outcome=result if outcome.good else outcome.text,
        )
        return outcome

    async def _send(self, due: Due) -> Outcome:
        try:
            secret = self._vault.open(due.secret)
        except (ConflictError, KeyFileError) as error:
            return Outcome(None, str(error))
        headers = signed_headers(secret, message_id(due.act, due.webhook), int(time.time()), due.body)
        headers["Content-Type"] = "application/json"
        try:
            reply = await self._outbound.post(due.url, headers, due.body.encode())
        except OutboundError as error:
            return Outcome(None, str(error))
        return Outcome(reply.status)

    async def close(self) -> None:
        """Let go of what is open."""
        await self._outbound.close()
