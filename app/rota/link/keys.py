"""The hub's own keys: those with which it signs what it tells its servers."""

from rota.drivers.key_file import make_key_file
from rota.errors import KeyFileError, MalformedError
from rota.settings import Settings
from rota.settings.load import read_key_file
from rota.wire.keys import SigningKey, read_keys

FILE = "servers"
MOST = 2  # while one replaces the other


def hub_keys(settings: Settings) -> list[SigningKey]:
    """Return the hub's keys, the one in use first; none where a cluster was given none.

    The single-node edition makes one, once. Raises KeyFileError for a bad one.
    """
    text, where = settings.servers.key.reveal(), "servers.key"
    if not text and settings.sqlite:
        path = settings.keys_directory / FILE
        if not path.exists():
            make_key_file(path, SigningKey.new().written())
        text, where = read_key_file(path), str(path)
    if not text:
        return []
    try:
        keys = read_keys(text)
    except MalformedError as error:
        raise KeyFileError(f"{where}: {error}") from error
    if len(keys) > MOST:
        raise KeyFileError(f"{where}: {len(keys)} keys: give the new one, and the old one behind it")
    return keys
