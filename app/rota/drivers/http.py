"""One outbound request, with hard bounds. What it needs is loaded by who sends one."""

import asyncio
from typing import TYPE_CHECKING

from rota.tlog.cosigning import ANSWER, LONGEST, Answer

if TYPE_CHECKING:
    import aiohttp

USER_AGENT = "rota"


class HttpPost:
    """POSTs to witnesses over connections that are kept."""

    def __init__(self) -> None:
        """Connect to nobody yet."""
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, url: str, body: bytes) -> Answer:
        """POST a body; follow no redirect, read at most LONGEST bytes, take at most ANSWER seconds.

        Raises OSError or TimeoutError.
        """
        import aiohttp  # noqa: PLC0415 - a hub without witnesses never loads it

        if self._session is None:
            self._session = aiohttp.ClientSession(headers={"User-Agent": USER_AGENT})
        try:
            async with (
                asyncio.timeout(ANSWER),
                self._session.post(url, data=body, allow_redirects=False) as answer,
            ):
                data = await answer.content.read(LONGEST)
                return Answer(answer.status, answer.headers.get("Content-Type", ""), data)
        except (aiohttp.ClientError, ValueError) as error:
            raise OSError(f"{url}: {error}") from error

    async def close(self) -> None:
        """Let go of the connections."""
        if self._session is not None:
            await self._session.close()
