"""How full a table is, for whoever asks often: counted at most every few seconds."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from rota.errors import RotaError

T = TypeVar("T")

FRESH = 15.0  # seconds for which a count is good
PATIENCE = 1.0  # seconds to wait for a new one


class Watch(Generic[T]):
    """One question to the database at a time, and none that anybody waits for long."""

    def __init__(self, count: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Count this way."""
        self.known: T | None = None  # None while it cannot be known
        self._count = count
        self._counted = -FRESH
        self._question: asyncio.Task[T] | None = None

    async def look(self) -> T | None:
        """Return the counts: at most FRESH seconds old, or None."""
        now = asyncio.get_running_loop().time()
        if now - self._counted < FRESH:
            return self.known
        if self._question is None:
            self._question = asyncio.create_task(self._count(), name="counts")
        question = self._question
        await asyncio.wait({question}, timeout=PATIENCE)
        if self._question is question:  # and nobody else has taken its answer meanwhile
            self.known = None
            if question.done():
                self._question = None
                with contextlib.suppress(RotaError):  # /health says why
                    self.known, self._counted = question.result(), now
        return self.known
