"""Named SQL: each dialect's statements, read from the package's own files."""

import re
from functools import cache
from importlib import resources

_NAME = re.compile(r"^-- name: (?P<name>[a-z_]+)\s*$", re.MULTILINE)


@cache
def statements(dialect: str) -> dict[str, str]:
    """Return `file.name` → SQL for "sqlite" or "postgresql".

    A file holds statements that each begin with a line `-- name: NAME`.
    """
    found: dict[str, str] = {}
    for file in resources.files("rota.store").joinpath("sql", dialect).iterdir():
        stem, _, suffix = file.name.rpartition(".")
        if suffix != "sql":
            continue
        parts = _NAME.split(file.read_text(encoding="utf-8"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            found[f"{stem}.{name}"] = text.strip().rstrip(";")
    return found
