"""The key that signs the log, and the policy that says who cosigns it."""

import base64
import re
import secrets
from hashlib import sha256
from pathlib import Path

from rota.drivers.key_file import make_key_file
from rota.errors import ConfigurationError, KeyFileError, MalformedError
from rota.settings import Settings
from rota.settings.load import read_key_file
from rota.tlog.keys import ED25519, Signer, private_text, read_signer, signer
from rota.tlog.policy import NONE, Policy, parse_policy

FILE = "tlog-checkpoint"
SEED = 32  # bytes

_BARE = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)  # 32 bytes in base64url, without the =


def checkpoint_signer(settings: Settings, *, make: bool = False) -> Signer | None:
    """Return the key that signs checkpoints; None where there is none.

    With `make` the single-node edition makes one, once, below its data
    directory; a cluster must be given one. Raises KeyFileError for a bad one.
    """
    text, where = settings.tlog.checkpoint_key.reveal(), "tlog.checkpoint_key"
    if not text and not settings.sqlite:
        return None
    if not text:
        path = settings.keys_directory / FILE
        if not path.exists() and not make:
            return None
        if not path.exists():
            name = settings.tlog.origin or _own_origin(settings.name)
            make_key_file(path, private_text(name, secrets.token_bytes(SEED)))
        text, where = read_key_file(path), str(path)
    try:
        found = _read(text, settings.tlog.origin)
    except MalformedError as error:
        raise KeyFileError(f"{where}: {error}") from error
    if found.verifier.kind != ED25519:
        raise KeyFileError(
            f"{where}: a key that cosigns, and does not sign: `rota tlog key NAME` makes one that does"
        )
    if settings.tlog.origin not in ("", found.verifier.name):
        raise KeyFileError(
            f"{where}: the key of {found.verifier.name}, and tlog.origin is {settings.tlog.origin}: "
            "give the key that belongs to it, or take tlog.origin away"
        )
    return found


def need_signer(settings: Settings) -> Signer:
    """Return the key that signs checkpoints. Raises KeyFileError where there is none and none may be made."""
    found = checkpoint_signer(settings, make=True)
    if found is None:
        raise KeyFileError(
            "tlog.checkpoint_key: a web process with PostgreSQL needs the key that signs the log: give the "
            "credential tlog-checkpoint-key; `rota tlog key NAME` makes one, and the kit does by itself"
        )
    return found


def _read(text: str, origin: str) -> Signer:
    """Read a key with its name, or a bare secret, whose name is the origin. Raises MalformedError."""
    if not _BARE.fullmatch(text):
        return read_signer(text)
    seed = base64.urlsafe_b64decode(text + "=")
    return signer(origin or _derived(seed), seed)


def _derived(seed: bytes) -> str:
    """Return a name that goes with this key alone, and stays when the hub or its host is renamed."""
    public = signer("any", seed).verifier.public
    return f"rota/{sha256(public).hexdigest()[:16]}"


def log_key(settings: Settings) -> str:
    """Return the vkey of the log. Raises KeyFileError as `need_signer` does."""
    return str(need_signer(settings).verifier)


def read_policy(settings: Settings) -> Policy:
    """Return whom the checkpointer asks. Raises ConfigurationError where the policy file is none."""
    if settings.tlog.quorum in ("", NONE):
        return Policy()
    try:
        return parse_policy(Path(settings.tlog.quorum).read_bytes())
    except (OSError, MalformedError) as error:
        raise ConfigurationError(f"tlog.quorum: {settings.tlog.quorum}: {error}") from error


def _own_origin(host: str) -> str:
    """Return a name that no other log has."""
    return f"{re.sub(r'[^A-Za-z0-9.-]', '-', host) or 'hub'}/tlog/{secrets.token_hex(4)}"
