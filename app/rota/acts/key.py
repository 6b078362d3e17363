"""The key that signs the log, and the policy that says who cosigns it."""

import os
import re
import secrets
from pathlib import Path

from rota.errors import ConfigurationError, KeyFileError, MalformedError
from rota.settings import Settings
from rota.settings.load import read_key_file
from rota.tlog.disk import make_directories, sync_directory
from rota.tlog.keys import ED25519, Signer, private_text, read_signer
from rota.tlog.policy import NONE, Policy, parse_policy

FILE = "tlog-checkpoint"
SEED = 32  # bytes


def checkpoint_signer(settings: Settings, *, make: bool = False) -> Signer | None:
    """Return the key that signs checkpoints; None where there is none.

    With `make` the single-node edition makes one, once, below its data
    directory; a cluster must be given one. Raises KeyFileError for a bad one.
    """
    text, where = settings.tlog.checkpoint_key.reveal(), "tlog.checkpoint_key"
    if not text:
        if not settings.sqlite:
            return None
        path = settings.keys_directory / FILE
        if not path.exists() and not make:
            return None
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


def read_policy(settings: Settings) -> Policy:
    """Return whom the checkpointer asks. Raises ConfigurationError where the policy file is none."""
    if settings.tlog.quorum in ("", NONE):
        return Policy()
    try:
        return parse_policy(Path(settings.tlog.quorum).read_bytes())
    except (OSError, MalformedError) as error:
        raise ConfigurationError(f"tlog.quorum: {settings.tlog.quorum}: {error}") from error


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
