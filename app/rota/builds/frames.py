"""What a build and whoever ordered it say to each other, over one stream: frames of a kind and some bytes."""

import struct
from typing import Any, BinaryIO

import msgspec

HEAD = struct.Struct(">cI")
LONGEST = 4 * 1024 * 1024  # bytes of a frame

# To the build: what it is to do, then the bytes of the source.
ORDER = b"r"
# From the build: output; then its artifact, described and in parts; or why there is none.
OUTPUT, MADE, BYTES, WRONG = b"o", b"m", b"b", b"w"


class Order(msgspec.Struct, frozen=True):
    """What a build is to do: the source's size in bytes, and its limits."""

    size: int
    memory: int  # bytes, 0 for no limit
    environment: dict[str, str] = msgspec.field(default_factory=dict)


class Made(msgspec.Struct, frozen=True):
    """What a build made: the artifact's size in bytes, and the manifest as its row holds it."""

    size: int
    manifest: str


def packed(kind: bytes, data: bytes) -> bytes:
    """Return one frame."""
    return HEAD.pack(kind, len(data)) + data


def send(stream: BinaryIO, kind: bytes, data: Any) -> None:
    """Write one frame to a blocking stream."""
    stream.write(HEAD.pack(kind, len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: BinaryIO) -> tuple[bytes, bytes]:
    """Read one frame from a blocking stream. Raises EOFError, and ValueError for what is none."""
    kind, length = head(exactly(stream, HEAD.size))
    return kind, exactly(stream, length)


def head(data: bytes) -> tuple[bytes, int]:
    """Read a frame's head. Raises ValueError."""
    kind, length = HEAD.unpack(data)
    if length > LONGEST:
        raise ValueError(f"a frame of {length} bytes")
    return kind, length


def exactly(stream: BinaryIO, count: int) -> bytes:
    """Read so many bytes. Raises EOFError."""
    data = stream.read(count)
    if len(data) != count:
        raise EOFError
    return data
