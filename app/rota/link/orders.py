"""From an order's row to the message that is sent."""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from rota.link.provisions import Proofs, Provisions
from rota.store.server_outbox import Order
from rota.wire.statements import Message, Place, Start, Stop


class WrongOrderError(Exception):
    """An order can never be sent; the message says why."""


class Orders:
    """Completes orders with what does not stand in their rows."""

    def __init__(self, provisions: Provisions, proofs: Proofs) -> None:
        """Look things up there."""
        self._provisions = provisions
        self._proofs = proofs

    async def message(self, order: Order) -> Message:
        """Return the message of an order. Raises NotYetError while it must wait, WrongOrderError."""
        if order.act is not None:
            await self._proofs.index(order.act)
        try:
            match order.kind:
                case "place":
                    return await self._place(order.body)
                case "start":
                    return await self._start(order.body)
                case "stop":
                    return msgspec.convert(_only(order.body, "instance", "release", "run"), Stop)
                case _:
                    raise WrongOrderError(f"nobody sends a {order.kind} as an order")
        except LookupError as error:
            raise WrongOrderError(f"what it needs is not there: {error}") from error
        except msgspec.ValidationError as error:
            raise WrongOrderError(f"it does not make a message: {error}") from error

    async def _place(self, body: Mapping[str, Any]) -> Place:
        act = await self._provisions.act_of(body["app"], body["release"])
        proved = await self._proofs.proved(act)
        rest = _only(body, "instance", "release", "process_type", "port", "run", "command")
        proof = bytes(proved.proof).decode()
        return msgspec.convert({**rest, "statement": proved.entry.decode(), "proof": proof}, Place)

    async def _start(self, body: Mapping[str, Any]) -> Start:
        values = await self._provisions.configuration(body["app"], body["release"])
        configuration = {name: base64.b64encode(value).decode() for name, value in values.items()}
        rest = _only(body, "instance", "release", "run")
        return msgspec.convert({**rest, "configuration": configuration}, Start)


def _only(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: body[name] for name in names if name in body}
