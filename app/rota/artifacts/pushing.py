"""Pushes a packed source to the hub by what is not there yet. It may block."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rota.artifacts.chunking import written
from rota.artifacts.measuring import Measured
from rota.artifacts.store import PART
from rota.artifacts.transfer import Line, RefusedError, TransferError

TRIES = 4
WAIT = 0.2  # seconds, doubled each time
LATER = (408, 429, 503)  # answers after which another try may help
BINARY = {"Content-Type": "application/octet-stream"}

Told = Callable[[int, int], None]  # is told (bytes sent, bytes to send), again and again


def push(line: Line, app: str, archive: Path, measured: Measured, told: Told) -> int:
    """Have an archive at the hub, as a source of an app; return how many bytes travelled.

    Raises TransferError: what has come is kept there, and the next push goes on.
    """
    pushing = _Pushing(line, f"/api/apps/{app}/sources/{measured.hash}", archive, told)
    for attempt in range(1, TRIES + 1):
        try:
            if pushing.complete(written(measured.chunks)):
                return pushing.sent
        except TransferError as error:
            if attempt == TRIES or (isinstance(error, RefusedError) and error.status not in LATER):
                raise
            time.sleep(WAIT * 2**attempt)
    raise TransferError("the hub still misses parts of what was sent: was the archive changed meanwhile?")


class _Pushing:
    """One push: how much of what was sent."""

    def __init__(self, line: Line, target: str, archive: Path, told: Told) -> None:
        self.sent = 0
        self._line, self._target, self._archive, self._told = line, target, archive, told
        self._total = 0

    def complete(self, listed: bytes) -> bool:
        """Send what the hub misses; tell whether it misses nothing any more."""
        found = self._document("POST", self._target, listed, BINARY)
        spans = [(each["start"], each["end"]) for each in found["missing"]]
        self._total = self.sent + sum(end - start for start, end in spans)
        for start, end in spans:
            headers = {**BINARY, "Content-Length": str(end - start)}
            target = f"{self._target}?start={start}"
            found = self._document("PUT", target, self._parts(start, end), headers)
        return bool(found["complete"])

    def _parts(self, start: int, end: int) -> Iterator[memoryview]:
        """Yield a span in parts, each good until the next one is asked for."""
        view = memoryview(bytearray(min(PART, end - start)))
        with self._archive.open("rb", buffering=0) as file:
            file.seek(start)
            while start < end:
                size = file.readinto(view[: end - start])
                if not size:
                    raise OSError(f"{self._archive} is shorter than it was")
                yield view[:size]
                start += size
                self.sent += size
                self._told(self.sent, self._total)

    def _document(self, method: str, target: str, body: Any, headers: dict[str, str]) -> dict[str, Any]:
        data = self._line.read(self._line.ask(method, target, body, headers))
        try:
            return dict(json.loads(data))
        except ValueError as error:
            raise TransferError("the hub does not answer as a hub does: is the address right?") from error
