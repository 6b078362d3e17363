"""That a SQLite hub is one process, settled by the kernel."""

import contextlib
import fcntl
import os
from pathlib import Path

from rota.errors import InstanceError, RotaError


def claim_one_process(path: Path) -> int:
    """Make this the one process of a SQLite hub; return the descriptor that holds the claim.

    The kernel frees it with the process. Raises InstanceError where another
    process holds it, and RotaError where the file cannot be made.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RotaError(
            f"{path}: {error.strerror}: it must be a file that this user may write: remove it, or make room"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise InstanceError(
            f"database.url: SQLite means one process, and process {holder} already serves {path.parent}: "
            "stop it first, give this one another --data, or use PostgreSQL"
        ) from None
    with contextlib.suppress(OSError):  # on a full disk the claim holds, though nobody can read whose
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor
