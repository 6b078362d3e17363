"""Settings written for people and for backups, without their secrets."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from rota.secret import Secret
from rota.settings.model import Settings, key_types


def describe(settings: Settings) -> dict[str, Any]:
    """Return `section.key` → a value for JSON, secrets redacted."""
    return {
        f"{section}.{key}": _shown(getattr(getattr(settings, section), key))
        for section, keys in key_types().items()
        for key in keys
    }


def secrets_of(settings: Settings) -> dict[str, Secret]:
    """Return the secrets that are set, by the name of their credential file."""
    found = {}
    for section, keys in key_types().items():
        for key, kind in keys.items():
            value = getattr(getattr(settings, section), key)
            if kind is Secret and value:
                found[credential_name(section, key)] = value
    return found


def credential_name(section: str, key: str) -> str:
    """Return the name of the credential file for a secret."""
    return f"{section}-{key.replace('_', '-')}"


def without_password(url: str) -> str:
    """Return an address with its password, if any, redacted."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    user, _, place = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.split(':')[0]}:[redacted]@{place}"))


def _shown(value: Any) -> Any:
    if isinstance(value, Secret):
        return repr(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str):
        return without_password(value) if "://" in value else value
    return list(value) if isinstance(value, tuple) else value
