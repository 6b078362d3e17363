"""Passwords: hashed by argon2id, one at a time, so that sign-ins take neither all memory nor time."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from rota.errors import BusyError

T = TypeVar("T")

MOST = 32  # that wait at once; each takes some 30 ms
# 19 MiB, twice: the least that OWASP advises, and what one processor can spare for a sign-in.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1, type=Type.ID)
# Of a random value that nobody kept. It is tried where there is no account, so that both take the same time.
_NOBODY = "$argon2id$v=19$m=19456,t=2,p=1$DWpuM9WgSGZZOC5dYCB1ww$VwLFRJ6YF3XIjR6xSxrSwAf0TNtACeFoj5S2R7Tm6QA"


def hashed(password: str) -> str:
    """Return the hash of a password, which takes some 30 ms of a processor."""
    return _HASHER.hash(_bytes(password))


def fits(kept: str | None, password: str) -> bool:
    """Tell whether a password is the one of a hash; in the same time where there is no hash."""
    try:
        return _HASHER.verify(kept or _NOBODY, _bytes(password)) and kept is not None
    except (VerificationError, InvalidHashError):
        return False


def _bytes(password: str) -> bytes:
    return password.encode(errors="surrogatepass")


class Passwords:
    """Hashes and compares in a thread of its own. Raises BusyError where too many wait."""

    def __init__(self) -> None:
        """Begin without a thread; the first password starts it."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="passwords")
        self._waiting = 0

    async def hashed(self, password: str) -> str:
        """Return the hash of a password."""
        return await self._run(hashed, password)

    async def fits(self, kept: str | None, password: str) -> bool:
        """Tell whether a password is the one of a hash."""
        return await self._run(fits, kept, password)

    async def _run(self, function: Callable[..., T], *arguments: object) -> T:
        if self._waiting >= MOST:
            raise BusyError("Too many sign-ins at once.")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)
        finally:
            self._waiting -= 1
