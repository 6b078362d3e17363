"""Webhooks' secrets at rest: sealed with a key of the hub, since a try must sign with them."""

from typing import TYPE_CHECKING

from rota.drivers.key_file import make_key_file
from rota.errors import ConflictError, KeyFileError
from rota.settings import Settings
from rota.settings.load import read_key_file

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

FILE = "webhooks"


def new_key() -> str:
    """Return a new key as text."""
    from cryptography.fernet import Fernet  # noqa: PLC0415 - a hub without webhooks never loads it

    return Fernet.generate_key().decode()


class Vault:
    """Seals with the first key, opens with any: a key is replaced by putting the new one before it."""

    def __init__(self, settings: Settings) -> None:
        """Use this hub's keys, which are read when they are first needed."""
        self._settings = settings
        self._fernet: MultiFernet | None = None

    def seal(self, secret: str) -> str:
        """Return a secret as it is kept. Raises ConflictError where the hub has no key, and KeyFileError."""
        return self._keys(make=True).encrypt(secret.encode()).decode()

    def open(self, sealed: str) -> str:
        """Return a secret. Raises ConflictError, and KeyFileError where no key opens it."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415

        try:
            return self._keys(make=False).decrypt(sealed.encode()).decode()
        except InvalidToken as error:
            raise KeyFileError(
                "webhooks.key: it does not open this webhook's secret: put its old key behind the new one"
            ) from error

    def _keys(self, *, make: bool) -> "MultiFernet":
        if self._fernet is None:
            self._fernet = self._read(make=make)
        return self._fernet

    def _read(self, *, make: bool) -> "MultiFernet":
        from cryptography.fernet import Fernet, MultiFernet  # noqa: PLC0415

        text, where = self._settings.webhooks.key.reveal(), "webhooks.key"
        if not text and self._settings.sqlite:
            path = self._settings.keys_directory / FILE
            if make and not path.exists():
                make_key_file(path, new_key())
            text, where = read_key_file(path), str(path)
        if not text:
            raise ConflictError(
                "This hub has no key that seals webhooks' secrets.",
                "Give every process the credential webhooks-key; `rota webhook key` makes one.",
            )
        try:
            return MultiFernet([Fernet(_padded(key.strip())) for key in text.split(",")])
        except ValueError as error:
            raise KeyFileError(f"{where}: no key that `rota webhook key` makes") from error


def _padded(key: str) -> str:
    """Return a key as the library wants it: the kit makes keys without the = at their end."""
    return key + "=" * (-len(key) % 4)
