"""What a page may listen to. Pure functions."""

import re

from rota.errors import InputError

MOST = 16  # topics of one stream

_TOPIC = re.compile(r"[a-z][a-z0-9-]{0,31}(:[A-Za-z0-9][A-Za-z0-9._-]{0,63})?")
_ROOM = re.compile(r"[a-z][a-z0-9]{0,15}(-[a-z0-9]{1,32}){0,3}")


def parse_topics(text: str) -> frozenset[str]:
    """Read a list such as `acts,queue,run:5`. Raises InputError."""
    names = [name for name in text.split(",") if name]
    if len(names) > MOST:
        raise InputError(f"{len(names)} topics are too many", f"Name {MOST} at most.")
    for name in names:
        if not _TOPIC.fullmatch(name):
            raise InputError(
                f"{name[:80]!r} is no topic", "A topic is a word, as acts, or names one thing, as run:5."
            )
    return frozenset(names)


def parse_room(name: str) -> str:
    """Return a room's name. Raises InputError for one that is none."""
    if not _ROOM.fullmatch(name):
        raise InputError(
            f"{name[:80]!r} is no room's name",
            "A room's name is up to four words of small letters and digits, with dashes, as server-s2.",
        )
    return name


def room_topic(room: str) -> str:
    """Return the topic of a room's events. No page can ask for it as a topic: it has a slash."""
    return f"room/{room}"
