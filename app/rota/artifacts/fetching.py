"""Fetches an artifact by what is not here yet. It may block: an event loop runs it in a thread."""

import contextlib
import http.client
import time
from http import HTTPStatus
from pathlib import Path

from blake3 import blake3

from rota.artifacts.assembling import Assembly, Span
from rota.artifacts.chunking import read, size_of
from rota.artifacts.room import check_room
from rota.artifacts.store import PART, ArtifactStore, checked_hash
from rota.artifacts.transfer import Line, Signing, TransferError, WrongError
from rota.errors import InputError, MalformedError

TRIES = 3
WAIT = 0.2  # seconds, doubled each time


def fetch(store: ArtifactStore, hub: str, signing: Signing, artifact: str, size: int) -> Path:
    """Have an artifact of so many bytes in the store, and return where it lies.

    `hub` is its address as http://10.79.0.1:8425, and `signing` gives the headers of
    a request by its method and target. Nothing is visible before its BLAKE3 was
    checked. Raises TransferError, which leaves what has come for the next try, and
    WrongError where that is in vain;
    ConflictError where it will not fit; BusyError where another process fetches it.
    """
    if store.holds(artifact):
        return store.path(artifact)
    partial = store.partial(artifact)
    check_room(partial.parent, size - (partial.stat().st_size if partial.exists() else 0), "this artifact")
    with Line(hub, signing) as line, Assembly(store, artifact) as assembly:
        for attempt in range(1, TRIES + 1):
            try:
                return _fetched(line, assembly, artifact, size)
            except WrongError:
                raise
            except TransferError:
                if attempt == TRIES:
                    raise
                time.sleep(WAIT * 2**attempt)
    raise AssertionError  # the last try returns or raises


def _fetched(line: Line, assembly: Assembly, artifact: str, size: int) -> Path:
    target = f"/artifacts/{checked_hash(artifact)}"
    try:
        chunks = read(line.read(line.ask("GET", f"{target}/chunks")))
    except MalformedError as error:
        raise WrongError(f"the chunks of the artifact {artifact} are not understood: {error}") from error
    if size_of(chunks) != size:
        raise WrongError(
            f"the artifact {artifact} has {size_of(chunks)} bytes, and its statement says {size}"
        )
    missing = assembly.begin(chunks)
    fresh = missing == [Span(0, size)]
    hasher = blake3()
    for span in missing:
        _span(line, target, span, assembly, hasher)
    try:
        return assembly.finish(chunks, hasher.digest() if fresh else None)
    except InputError as error:
        raise WrongError(str(error)) from error


def _span(line: Line, target: str, span: Span, assembly: Assembly, hasher: blake3) -> None:
    """Fetch a span and write it to its place."""
    answer = line.ask("GET", target, headers={"Range": f"bytes={span.start}-{span.end - 1}"})
    expected = f"bytes {span.start}-{span.end - 1}/"
    ranged = (answer.getheader("Content-Range") or "").startswith(expected)
    if not (answer.status == HTTPStatus.PARTIAL_CONTENT and ranged and answer.length == span.size):
        raise line.failed(TransferError("it answers other bytes than were asked for"))
    buffer = bytearray(min(PART, span.size))
    view, at = memoryview(buffer), span.start
    while at < span.end:
        try:
            filled = _filled(answer, view[: span.end - at])
        except (OSError, http.client.HTTPException) as error:
            raise line.failed(error) from error
        if not filled:
            raise line.failed(TransferError("it ended in the middle"))
        hasher.update(view[:filled])
        assembly.write(at, view[:filled])
        at += filled
    with contextlib.suppress(OSError, http.client.HTTPException):
        answer.read()  # its end, so that the connection can be used again


def _filled(answer: http.client.HTTPResponse, view: memoryview) -> int:
    """Fill a buffer, less at the end; return how much is filled."""
    filled = 0
    while filled < len(view):
        got = answer.readinto(view[filled:])
        if not got:
            break
        filled += got
    return filled
