"""The agent's own files: JSON, each replaced in one step and on the disk before anything is answered."""

import os
import secrets
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rota.errors import ConfigurationError
from rota.tlog.disk import make_directories, sync_directory

T = TypeVar("T")


def load(path: Path, kind: type[T]) -> T | None:
    """Return what a file holds, None where there is none. Raises ConfigurationError for a damaged one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise ConfigurationError(
            f"{path} is damaged: {error}: put it back, or delete it and enrol anew"
        ) from error


def save(path: Path, value: Any) -> None:
    """Replace a file, for this user alone, durably. Raises OSError."""
    write(path, msgspec.json.encode(value))


def write(path: Path, data: bytes) -> None:
    """Replace a file's bytes, for this user alone, durably. Raises OSError."""
    make_directories(path.parent)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)
    sync_directory(path.parent)


def delete(path: Path) -> None:
    """Delete a file that may be gone already, durably."""
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        sync_directory(path.parent)
