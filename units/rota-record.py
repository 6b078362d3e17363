"""Say, as JSON, what a unit runs: one digest for each named part.

    rota-record NAME=PATH[:PATH...] ...             prints what is on disk
    rota-record --into DIR NAME=PATH[:PATH...] ...  writes it to DIR/running

A unit runs the second form as it starts; the kit compares that with the first form and restarts
the unit when they differ. Standard library only: it runs on the host's own Python.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path


def digest(path: Path) -> bytes:
    """Digest a link by its target, a directory by its files' names and contents, a file by its content."""
    if path.is_symlink():
        return b"link " + str(path.readlink()).encode()
    if path.is_dir():
        return b"".join(each.name.encode() + digest(each) for each in sorted(path.iterdir()))
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).digest()
    return b"absent"


def parts(arguments: list[str]) -> dict[str, str]:
    """Read NAME=PATH[:PATH...] arguments."""
    record = {}
    for argument in arguments:
        name, _, paths = argument.partition("=")
        whole = hashlib.sha256()
        for path in paths.split(":"):
            whole.update(digest(Path(path)))
        record[name] = whole.hexdigest()
    return record


def main(arguments: list[str]) -> None:
    """Print the record, or write it where `--into DIR` says."""
    if arguments[:1] == ["--into"]:
        target = Path(arguments[1]) / "running"
        target.write_text(json.dumps(parts(arguments[2:])))
        target.chmod(0o600)
    else:
        sys.stdout.write(json.dumps(parts(arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])
