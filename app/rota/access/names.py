"""What accounts and tokens may be called, and what a password must be."""

import re

from rota.errors import InputError

SHORTEST, LONGEST = 12, 1024  # characters of a password

_ACCOUNT = re.compile(r"[a-z][a-z0-9._-]{0,31}")
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,63}")


def is_account_name(name: str) -> bool:
    """Tell whether an account can have this name."""
    return _ACCOUNT.fullmatch(name) is not None


def check_account_name(name: str) -> str:
    """Return the name. Raises InputError."""
    if not is_account_name(name):
        raise InputError(
            "An account's name has up to 32 small letters, digits, dots, - and _, and begins with a letter.",
            "Give it such a name, as ada.",
        )
    return name


def check_token_name(name: str) -> str:
    """Return the name. Raises InputError."""
    if not _TOKEN.fullmatch(name):
        raise InputError(
            "A token's name has up to 64 letters, digits, spaces, dots, @, - and _, the first no sign.",
            "Name it after who will use it, as ci.",
        )
    return name


def check_password(password: str) -> str:
    """Return the password. Raises InputError; its message holds nothing of it."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise InputError(
            f"A password has from {SHORTEST} to {LONGEST} characters.",
            "Choose a longer one: several words do.",
        )
    return password
