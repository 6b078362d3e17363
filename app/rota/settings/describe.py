"""Settings written for people and for backups, without their secrets."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rota.secret import Secret
from rota.settings.model import Settings, key_types

# The user ends at the first colon; the password, which may hold any sign, at the last @.
_PASSWORD = re.compile(r"^([^:/]+://[^:/@]*:).*(?=@)", re.DOTALL)


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
    """Return an address with its passwords redacted, before the host and among the parameters."""
    start, mark, parameters = _PASSWORD.sub(r"\1[redacted]", url).partition("?")
    return start + mark + "&".join(map(_without_password_value, parameters.split("&")))


def _without_password_value(parameter: str) -> str:
    name, mark, _ = parameter.partition("=")
    return f"{name}{mark}[redacted]" if "password" in unquote(name).casefold() else parameter


def _shown(value: Any) -> Any:
    if isinstance(value, Secret):
        return repr(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str):
        return without_password(value) if "://" in value else value
    return list(value) if isinstance(value, tuple) else value
