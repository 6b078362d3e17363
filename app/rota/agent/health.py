"""Whether an instance is well: the pure rule, and the probes."""

import asyncio
import contextlib
from dataclasses import dataclass, replace

from rota.wire.statements import Health

MISSES = 3  # in a row, one each second, and an instance is not well
LONGEST_HEAD = 4096  # bytes of an answer's first line
WELL = range(200, 400)


@dataclass(frozen=True)
class Pulse:
    """What is known of one life of an instance; times are monotonic, in seconds."""

    since: float
    well: bool = False
    was_well: bool = False
    misses: int = 0
    reason: str = ""

    def after(self, problem: str) -> "Pulse":
        """Return the pulse after one more try, `problem` being empty where it went well."""
        if not problem:
            return replace(self, well=True, was_well=True, misses=0, reason="")
        misses = self.misses + 1
        return replace(self, misses=misses, well=self.well and misses < MISSES, reason=problem)

    def late(self, start: int, now: float) -> bool:
        """Tell whether it has never been well for longer than it may take."""
        return not self.was_well and now - self.since > start


async def probe(health: Health, host: str, port: int) -> str:
    """Try once; return what is wrong, or nothing."""
    if health.kind == "process":
        return ""
    try:
        async with asyncio.timeout(health.timeout):
            return await _ask(health, host, port)
    except TimeoutError:
        return f"no answer within {health.timeout} s"
    except (OSError, ValueError) as error:
        return f"port {port}: {error.strerror if isinstance(error, OSError) else error}"[:300]


async def _ask(health: Health, host: str, port: int) -> str:
    reader, writer = await asyncio.open_connection(host, port, limit=LONGEST_HEAD)
    try:
        if health.kind == "tcp":
            return ""
        shown = f"[{host}]" if ":" in host else host
        lines = [f"GET {health.path} HTTP/1.1", f"Host: {shown}:{port}", "User-Agent: rota-health"]
        writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        await writer.drain()
        line = await reader.readline()
    finally:
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            await writer.wait_closed()
    parts = line.split(maxsplit=2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not parts[1].isdigit():  # noqa: PLR2004
        return f"{health.path}: the answer is no HTTP"
    status = int(parts[1])
    return "" if status in WELL else f"{health.path} answered {status}"
