"""Whether a disk has room for what is about to be written to it."""

import os
from pathlib import Path

from rota.errors import ConflictError

SPARE = 128 * 1024 * 1024  # bytes that stay free, so that what runs there goes on


def check_room(directory: Path, needed: int, what: str) -> None:
    """Refuse what will not fit, before any of it is fetched or made. Raises ConflictError."""
    disk = os.statvfs(directory)
    free = disk.f_bavail * disk.f_frsize
    if free < needed + SPARE:
        raise ConflictError(
            f"There is no room for {what} in {directory}: it takes {needed >> 20} MiB, and {free >> 20} MiB "
            f"are free, of which {SPARE >> 20} must stay so.",
            "Make room there, or lower [artifacts] keep_releases.",
        )
