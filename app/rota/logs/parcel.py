"""What a server sends of its instances' output: entries of several copies at once."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rota.logs.entry import Entry
from rota.wire.statements import AppName, Strict

COPY = r"^[a-z][a-z0-9-]{0,22}\.[a-z][a-z0-9_-]{0,15}\.[1-9][0-9]{0,3}@[0-9]{1,16}(\.[0-9]{1,16})?\Z"
MOST = 1024 * 1024  # bytes of a parcel


class Part(Strict, frozen=True, kw_only=True):
    """Entries of one copy, in the order of their numbers."""

    copy: Annotated[str, Meta(pattern=COPY)]
    entries: list[Entry]


class Parcel(Strict, frozen=True, kw_only=True):
    """Everything that is sent at once."""

    parts: list[Part]


class Lined(Strict, frozen=True, kw_only=True):
    """A line as it lies on the primary's shelf, and as people are given it."""

    at: int
    app: AppName
    process_type: str
    instance: str
    release: int
    server: str
    number: int
    text: str
    dropped: int = 0
    cut: bool = False


def lined(server: str, copy: str, entry: Entry) -> Lined:
    """Return an entry as it is shelved."""
    name, _, release = copy.partition("@")
    app, process_type, _ = name.split(".")
    return Lined(
        at=entry.at,
        app=app,
        process_type=process_type,
        instance=name,
        release=int(release.partition(".")[0]),
        server=server,
        number=entry.number,
        text=entry.text,
        dropped=entry.dropped,
        cut=entry.cut,
    )


def encoded(parcel: Parcel) -> bytes:
    """Return a parcel as it is sent."""
    return msgspec.json.encode(parcel)
