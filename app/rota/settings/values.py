"""Raw setting values turned into typed ones, or into a reason why not."""

from pathlib import Path
from typing import Any

from rota.secret import Secret

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


def from_toml(raw: object, wanted: Any) -> Any:
    """Check a value read from TOML against its type. Raises ValueError."""
    if wanted == tuple[str, ...]:
        if isinstance(raw, list) and all(isinstance(item, str) for item in raw):
            return tuple(raw)
        raise ValueError(f'must be a list of strings, as ["web", "worker"], not {raw!r}')
    if wanted is bool:
        if isinstance(raw, bool):
            return raw
        raise ValueError(f"must be true or false without quotes, not {raw!r}")
    if wanted is int:
        if isinstance(raw, int) and not isinstance(raw, bool):
            return raw
        raise ValueError(f"must be a whole number without quotes, not {raw!r}")
    if isinstance(raw, str):
        return _text(raw, wanted)
    raise ValueError(f"must be a string in quotes, not {'a number' if wanted is Secret else repr(raw)}")


def from_text(raw: str, wanted: Any) -> Any:
    """Read a value given as text, by the environment, a credential or an option. Raises ValueError."""
    if wanted == tuple[str, ...]:
        return tuple(item.strip() for item in raw.split(",") if item.strip())
    if wanted is bool:
        word = raw.strip().casefold()
        if word in _TRUE | _FALSE:
            return word in _TRUE
        raise ValueError(f"must be true or false, not {raw!r}")
    if wanted is int:
        try:
            return int(raw.strip())
        except ValueError:
            raise ValueError(f"must be a whole number, not {raw!r}") from None
    return _text(raw, wanted)


def _text(raw: str, wanted: Any) -> Any:
    if "\x00" in raw:
        raise ValueError("must not hold a NUL character")
    if any("\ud800" <= sign <= "\udfff" for sign in raw):  # how Python carries what it cannot read
        raise ValueError("must be UTF-8")
    if wanted is Path:
        if not raw:
            raise ValueError("must name a directory")
        return Path(raw).absolute()
    return Secret(raw) if wanted is Secret else raw
