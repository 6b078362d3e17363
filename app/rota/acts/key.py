"""The key that signs the log: given by the operator, or made by the single-node edition for itself."""

import os
import re
import secrets
from pathlib import Path

from rota.errors import KeyFileError, MalformedError
from rota.settings import Settings
from rota.settings.load import read_key_file
from rota.tlog.disk import make_directories, sync_directory
from rota.tlog.keys import ED25519, Signer, private_text, read_signer

FILE = "tlog-checkpoint"
SEED = 32  # bytes


def checkpoint_signer(settings: Settings) -> Signer | None:
    """Return the key that signs checkpoints; None for a cluster that was given none.

    The single-node edition makes one, once, below its data directory. Raises
    KeyFileError where there is one that is none.
    """
    text, where = settings.tlog.checkpoint_key.reveal(), "tlog.checkpoint_key"
    if not text:
        if not settings.sqlite:
            return None
        path = settings.keys_directory / FILE
        if not path.exists():
            _make(path, settings.name)
        text, where = read_key_file(path), str(path)
    try:
        found = read_signer(text)
    except MalformedError as error:
        raise KeyFileError(f"{where}: {error}") from error
    if found.verifier.kind != ED25519:
        raise KeyFileError(
            f"{where}: a key that cosigns, and does not sign: `rota tlog key NAME` makes one that does"
        )
    return found


def _make(path: Path, host: str) -> None:
    """Make a key whose name no other log has."""
    name = f"{re.sub(r'[^A-Za-z0-9.-]', '-', host) or 'hub'}/tlog/{secrets.token_hex(4)}"
    make_directories(path.parent)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor
        file.write(private_text(name, secrets.token_bytes(SEED)) + "\n")
        file.flush()
        os.fsync(descriptor)
    try:
        os.link(draft, path)  # and not over one that another process has just made
    except FileExistsError:
        return
    finally:
        draft.unlink()
    sync_directory(path.parent)
