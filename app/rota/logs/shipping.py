"""Sends what a server's spools hold to the primary, and forgets it once that has answered."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable

import structlog

from rota.logs.parcel import MOST, Parcel, Part, encoded
from rota.logs.reader import Reader

LOOK = 0.2  # seconds between two looks for something to send
AGAIN, AGAIN_MOST = 0.5, 15.0  # seconds until the next try, doubling

# Sends a body; returns the status of the answer. Raises OSError or RotaError where there is none.
Send = Callable[[bytes], Awaitable[int]]

OK, REFUSED = 200, 400

log = structlog.get_logger("rota.logs")


class Shipping:
    """One server's. What is sent twice, because an answer was lost, is kept once by its numbers."""

    def __init__(self, reader: Reader, send: Send) -> None:
        """Ship what this reader has read."""
        self._reader = reader
        self._send = send
        self._pause = AGAIN

    async def run(self) -> None:
        """Ship until cancelled."""
        while True:
            sent = await self.step()
            if sent is None:
                await asyncio.sleep(self._pause)
                self._pause = min(AGAIN_MOST, self._pause * 2)
                continue
            self._pause = AGAIN
            if not sent:
                self._reader.forget_left()
                await asyncio.sleep(LOOK)

    async def step(self) -> bool | None:
        """Send one parcel; return whether there was one, None where the primary did not take it."""
        parts, upto, size = [], {}, 0
        for copy, spool in sorted(self._reader.spools().items()):
            entries, end = spool.batch()
            if entries:
                parts.append(Part(copy=copy, entries=entries))
                upto[copy] = end
                size += sum(len(entry.text) + 64 for entry in entries)
            if size > MOST // 2:
                break
        if not parts:
            return False
        status = await self._send(encoded(Parcel(parts=parts)))
        if status != OK:
            return None
        spools = self._reader.spools()
        for copy, end in upto.items():
            if copy in spools:
                spools[copy].done(end)
        return True


def body_hash(body: bytes) -> str:
    """Return the SHA-256 of a body, as a signed request names it."""
    return hashlib.sha256(body).hexdigest()


def now() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1000
