"""The numbers that PostgreSQL's advisory locks go by."""

from blake3 import blake3


def leader_key(schema: str, task: str) -> int:
    """Return the lock key of a singleton task, a signed 64-bit integer."""
    return _key("rota leader", schema, task)


def exclusive_key(schema: str, name: str) -> int:
    """Return the lock key of an exclusive transaction, a signed 64-bit integer."""
    return _key("rota exclusive", schema, name)


def channel(schema: str, topic: str) -> str:
    """Return the notification channel of a topic: at most 63 bytes, one set for each schema."""
    name = f"rota_{blake3(schema.encode()).hexdigest()[:16]}_{topic}"
    if len(name.encode()) > 63:  # noqa: PLR2004 - LISTEN cuts longer names silently
        raise ValueError(f"topic {topic!r} makes a channel name longer than 63 bytes")
    return name


def _key(purpose: str, schema: str, name: str) -> int:
    digest = blake3(b"\0".join((purpose.encode(), schema.encode(), name.encode()))).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
