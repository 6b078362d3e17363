"""Cuts a file into chunks where its content says so, so that a change moves only the chunks that it touches.

A chunk ends where the CRC-32 of the bytes just before says so: at the first such place
that is at least `LEAST` bytes after its start, else at `MOST` bytes. Only places behind
certain bytes are looked at, the end of a line among them, which a regular expression
finds at the speed of C; and most of a chunk is passed over unseen. Where chunks end
affects how much travels and never what arrives, since each is checked against its
BLAKE3 and the whole against the artifact's name.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO
from zlib import crc32

from blake3 import blake3

from rota.errors import MalformedError

LEAST, MOST = 128 * 1024, 512 * 1024  # bytes of a chunk; only the last may be shorter
READ = 8 * MOST  # bytes read at once
_RECORD = struct.Struct(">32sI")
RECORD = _RECORD.size  # bytes of a list for each chunk
MOST_CHUNKS = 1_000_000  # of one list


def _signs(sixteenth: int) -> bytes:
    """Return a class of bytes that are spread over all kinds of text and data."""
    chosen = [bytes([sign]) for sign in range(256) if sign * 37 % 16 == sixteenth]
    return b"[" + b"".join(map(re.escape, chosen)) + b"]"


# Of random bytes, one place in 128 is looked at, and one of 128 of those is an end.
_PLACE = re.compile(b"\n|" + _signs(1) + _signs(6))
SEEN = 64  # bytes before a place
MASK = 127


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a file: its BLAKE3, and its size in bytes."""

    hash: bytes
    size: int


def end_of(data: bytes | bytearray, start: int) -> int:
    """Return where the chunk that begins at `start` ends; `data` goes on for MOST bytes, or to its end."""
    last = min(len(data), start + MOST)
    view = memoryview(data)
    for place in _PLACE.finditer(data, min(last, start + LEAST), last):
        end = place.end()
        if not crc32(view[end - SEEN : end]) & MASK:
            return end
    return last


def cut(file: BinaryIO) -> Iterator[tuple[Chunk, memoryview]]:
    """Yield the chunks of a file with their bytes, which are good until the next one is asked for."""
    window, start, more = bytearray(), 0, True
    while True:
        if more and len(window) - start < MOST:
            del window[:start]
            start = 0
            part = file.read(READ)
            window += part
            more = len(part) == READ or bool(part)
            continue
        if start == len(window):
            return
        end = end_of(window, start)
        with memoryview(window) as whole, whole[start:end] as view:
            yield Chunk(blake3(view).digest(), end - start), view
        start = end


def written(chunks: list[Chunk]) -> bytes:
    """Return a list of chunks as it is kept and sent."""
    return b"".join(_RECORD.pack(chunk.hash, chunk.size) for chunk in chunks)


def read(data: bytes) -> list[Chunk]:
    """Read a list. Raises MalformedError for what none of ours can be."""
    if len(data) % RECORD or len(data) // RECORD > MOST_CHUNKS:
        raise MalformedError("this is no list of chunks")
    chunks = [Chunk(digest, size) for digest, size in _RECORD.iter_unpack(data)]
    if any(not 0 < chunk.size <= MOST for chunk in chunks):
        raise MalformedError("a list of chunks with one that is empty or too large")
    return chunks


def size_of(chunks: list[Chunk]) -> int:
    """Return the bytes of all chunks together."""
    return sum(chunk.size for chunk in chunks)
