"""Waiting for a condition, never for a time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(condition: Callable[[], T], within: float = 10.0) -> T:
    """Return the condition's first true value; fail with what it last was."""
    end = time.monotonic() + within
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {within} s; last: {value!r}")
        await asyncio.sleep(0.01)
    return value


async def eventually(ask: Callable[[], Awaitable[T]], within: float = 10.0) -> T:
    """Return the first true answer; fail with what it last was."""
    end = time.monotonic() + within
    while not (value := await ask()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {within} s; last: {value!r}")
        await asyncio.sleep(0.01)
    return value


def wait_for(condition: Callable[[], T], within: float = 10.0) -> T:
    """Return the condition's first true value, outside an event loop; fail with what it last was."""
    end = time.monotonic() + within
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {within} s; last: {value!r}")
        time.sleep(0.02)
    return value
