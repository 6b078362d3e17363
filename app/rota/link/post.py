"""One message to one agent over HTTP, with hard bounds."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from rota.errors import RotaError
from rota.wire.answer import Answer

if TYPE_CHECKING:
    import aiohttp

PORT = 8427  # on which agents listen, at their private addresses
PATH = "/messages"
LONGEST = 65_536  # bytes of an answer
ANSWER = 30.0  # seconds: a server may have to fetch an artifact's list before it answers


class UnansweredError(RotaError):
    """A server did not answer, or nothing that the protocol knows."""


class Post:
    """Carries envelopes to agents over connections that are kept."""

    def __init__(self, port: int = PORT) -> None:
        """Connect to nobody yet."""
        self._port = port
        self._session: aiohttp.ClientSession | None = None

    async def send(self, address: str, envelope: bytes) -> Answer:
        """Return what the agent at this private address answers. Raises UnansweredError."""
        import aiohttp  # noqa: PLC0415 - a process that leads nothing never loads it

        if self._session is None:
            bounds = aiohttp.ClientTimeout(sock_connect=3)
            self._session = aiohttp.ClientSession(timeout=bounds, headers={"User-Agent": "rota"})
        host = f"[{address}]" if ":" in address else address
        url = f"http://{host}:{self._port}{PATH}"
        try:
            async with (
                asyncio.timeout(ANSWER),
                self._session.post(url, data=envelope, allow_redirects=False) as response,
            ):
                data = await response.content.read(LONGEST)
        except TimeoutError as error:
            raise UnansweredError(f"no answer from {address} within {ANSWER:.0f} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise UnansweredError(f"{address} cannot be reached: {error}") from error
        try:
            return msgspec.json.decode(data, type=Answer)
        except msgspec.MsgspecError as error:
            raise UnansweredError(
                f"{address} answered {response.status} and nothing that an agent says"
            ) from error

    async def close(self) -> None:
        """Let go of the connections."""
        if self._session is not None:
            await self._session.close()
