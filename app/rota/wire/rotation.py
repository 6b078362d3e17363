"""When a key is accepted: pure rules over the keys of one sender. Times are by the hub's database."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from rota.wire.channel import Standing


@dataclass(frozen=True)
class KnownKey:
    """A public key; `ends_at` is None while no other has replaced it."""

    public: str
    ends_at: datetime | None = None
    revoked: bool = False


def standing(key: KnownKey, now: datetime) -> Standing:
    """Return what the sender with this key may still do."""
    if key.revoked:
        return Standing.REMOVED
    if key.ends_at is not None and key.ends_at <= now:
        return Standing.OVERDUE
    return Standing.ENROLLED


def current(keys: Iterable[KnownKey], now: datetime) -> list[KnownKey]:
    """Return the keys that are accepted for everything, the newest last as they were given."""
    return [key for key in keys if standing(key, now) is Standing.ENROLLED]
