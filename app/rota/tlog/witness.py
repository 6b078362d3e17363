"""A witness: cosigns only what goes on from what it cosigned before, and never forgets what that was.

What it saw is on the disk before it answers; looking and keeping are one step
under the lock of one file per log.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from http import HTTPStatus

import msgspec

from rota.errors import DamagedError, MalformedError
from rota.tlog.addcheckpoint import Refusal, Request, Seen, judge
from rota.tlog.cosignature import cosign
from rota.tlog.disk import Disk
from rota.tlog.keys import Signer, Verifier
from rota.tlog.notes import Note, Signature, parse_note
from rota.tlog.opening import open_note
from rota.tlog.slots import Slots

DIRECTORY = "witnessed"


class _Kept(msgspec.Struct):
    """What is kept for one log: the newest tree, when it was cosigned, and the note with both signatures."""

    origin: str
    size: int
    root: str
    time: int
    note: str


class Witness:
    """Cosigns for the logs that it knows. Its methods block: they wait for locks and for the disk."""

    def __init__(
        self,
        signer: Signer,
        logs: Mapping[str, Sequence[Verifier]],
        disk: Disk,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Witness these logs, by origin, with a key of the kind COSIGNATURE."""
        self._signer = signer
        self._logs = logs
        self._disk = disk
        self._clock = clock

    def add_checkpoint(self, request: Request) -> Signature | Refusal:
        """Cosign or refuse. Raises DamagedError, BusyError, OSError: then nothing was promised."""
        if request.checkpoint.origin not in self._logs:
            return Refusal(HTTPStatus.NOT_FOUND, "this log is not known here")
        with self._slots(request.checkpoint.origin).changing() as change:
            kept = _read(change.value)
            seen = Seen(kept.size, bytes.fromhex(kept.root)) if kept else None
            refusal = judge(request, self._logs, seen)
            if refusal is not None:
                return refusal
            now = int(self._clock())
            if now <= 0 or (kept and now < kept.time):
                return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the clock of this witness went back")
            signature = cosign(self._signer, request.note.text, now)
            change.replace(msgspec.json.encode(self._keep(request, signature, now)))
        return signature

    def checkpoint(self, digest: str) -> bytes | None:
        """Return the newest cosigned checkpoint of the log whose origin has this SHA-256, in hex."""
        for origin in self._logs:
            if sha256(origin.encode()).hexdigest() == digest:
                kept = _read(self._slots(origin).read())
                return kept.note.encode() if kept else None
        return None

    def _keep(self, request: Request, signature: Signature, now: int) -> _Kept:
        """Return what to keep: of the lines that came, only those that were checked."""
        checkpoint = request.checkpoint
        opened = open_note(request.note, self._logs[checkpoint.origin])
        note = Note(request.note.text, (*(each for _, each in opened.verified), signature))
        parse_note(str(note).encode())
        return _Kept(checkpoint.origin, checkpoint.size, checkpoint.root.hex(), now, str(note))

    def _slots(self, origin: str) -> Slots:
        return Slots(self._disk, f"{DIRECTORY}/{sha256(origin.encode()).hexdigest()}", time.sleep)


def _read(value: bytes | None) -> _Kept | None:
    try:
        return None if value is None else msgspec.json.decode(value, type=_Kept)
    except (msgspec.MsgspecError, MalformedError) as error:
        raise DamagedError(f"what this witness keeps cannot be read: {error}") from error
