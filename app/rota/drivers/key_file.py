"""Key files that the single-node edition makes for itself, once."""

import os
import secrets
from pathlib import Path

from rota.tlog.disk import make_directories, sync_directory


def make_key_file(path: Path, text: str) -> None:
    """Write a key for this user alone, durably, unless another process has just made one."""
    make_directories(path.parent)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor
        file.write(text + "\n")
        file.flush()
        os.fsync(descriptor)
    try:
        os.link(draft, path)  # and not over one that another process has just made
    except FileExistsError:
        return
    finally:
        draft.unlink()
    sync_directory(path.parent)
