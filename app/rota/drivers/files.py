"""Small files that other programs read: written whole or not at all."""

import os
from pathlib import Path

MODE = 0o600


def replace_file(path: Path, text: str) -> bool:
    """Write a file for this user alone, durably, where it differs; return whether it did."""
    try:
        if path.read_text(encoding="utf-8") == text:
            return False
    except FileNotFoundError:
        pass
    draft = path.with_name(f".{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(draft, flags, MODE), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    return True
