"""Envelopes from the hub: believed, judged, obeyed, and remembered before they are answered."""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic, time_ns

import msgspec
import structlog

from rota.agent.memory import AgentMemory, Link
from rota.agent.orders import Orders
from rota.agent.trust import RefusedError, Trust
from rota.wire import channel
from rota.wire.answer import DONE, Answer
from rota.wire.channel import Side, Standing, Taken
from rota.wire.envelope import unseal
from rota.wire.errors import GapError, IllegalError, WireError

MOST_REFUSED = 50  # reasons that wait for the next report
SILENCE = 600  # seconds without the hub after which reports say so

log = structlog.get_logger("rota.agent")


class Inbox:
    """Takes one message after the other."""

    def __init__(self, memory: AgentMemory, orders: Orders, name: str, changed: Callable[[], None]) -> None:
        """Take messages for the server of this name; call `changed` after each that had an effect."""
        self._memory = memory
        self._orders = orders
        self._name = name
        self._changed = changed
        self._turn = asyncio.Lock()
        self._heard_at = monotonic()
        self.refused: deque[str] = deque(maxlen=MOST_REFUSED)

    @property
    def unheard_for(self) -> int:
        """Seconds since the hub was last heard, once they are many."""
        silent = int(monotonic() - self._heard_at)
        return silent if silent >= SILENCE else 0

    def heard(self) -> None:
        """Note that the hub has just been heard."""
        self._heard_at = monotonic()

    async def take(self, envelope: bytes, trust: Trust | None) -> Answer:
        """Return the answer to a message. Raises UnreachedError where it is worth sending again."""
        async with self._turn:
            try:
                link = self._memory.link
                if link is None or trust is None:
                    raise IllegalError("this server is not enrolled")
                answer = await self._judged(envelope, link, trust)
            except WireError as error:
                self._note(str(error))
                expected = error.expected if isinstance(error, GapError) else 0
                answer = Answer(state="refused", reason=str(error)[:500], code=error.code, expected=expected)
        return msgspec.structs.replace(answer, now=time_ns() // 1000)

    async def _judged(self, envelope: bytes, link: Link, trust: Trust) -> Answer:
        sealed = unseal(envelope)
        channel.refuse_illegal(sealed.kind, Side.HUB, Standing.ENROLLED)
        statement = channel.decode(sealed, link.hub_keys)
        taken = channel.judge(statement, link.memory, self._name, link.hub)
        self.heard()
        if taken.repeated:
            return link.reply or DONE
        return await self._obeyed(taken, link, trust)

    async def _obeyed(self, taken: Taken, link: Link, trust: Trust) -> Answer:
        """Act, then remember that it was done and what is answered: whoever ends between acts once more."""
        kind, answer = channel.kind_of(taken.statement.body), DONE
        try:
            link = await self._orders.obey(taken.statement.body, link, trust)
        except (RefusedError, WireError) as error:
            self._note(f"{kind}: {error}")
            answer = Answer(state="refused", reason=str(error)[:500])
        memory = taken.memory
        kept = self._memory.link or link  # what was said meanwhile was counted there
        self._memory.set_link(
            msgspec.structs.replace(
                kept,
                hub_keys=link.hub_keys,
                heard=memory.seq,
                generation=memory.epoch.generation,
                epoch=memory.epoch.epoch,
                reply=answer,
            )
        )
        self._changed()
        return answer

    def _note(self, reason: str) -> None:
        log.warning("refused", reason=reason)
        self.refused.append(reason[:500])
