"""What the log's owner has signed: the newest tree, kept so that it is never gone back on."""

import time
from dataclasses import asdict, dataclass

import msgspec

from rota.errors import DamagedError
from rota.tlog.checkpoint import Checkpoint
from rota.tlog.disk import Disk
from rota.tlog.frames import START, Position
from rota.tlog.keys import Signer
from rota.tlog.merkle import EMPTY_ROOT
from rota.tlog.notes import sign_note
from rota.tlog.slots import Slots

FILE = "state/signed"


@dataclass(frozen=True)
class Signed:
    """One signed tree: who led when it was signed, where the records end there, and the note itself."""

    origin: str
    generation: int
    epoch: int
    size: int
    root: str  # hex
    position: str
    note: str

    def tree(self) -> tuple[int, bytes, Position]:
        """Return the size, the root and the position in the records. Raises DamagedError."""
        try:
            return self.size, bytes.fromhex(self.root), Position.parse(self.position)
        except ValueError as error:
            raise DamagedError(f"what was last signed cannot be read: {error}") from error


def nothing_signed(origin: str) -> Signed:
    """Return what stands for a log that nobody has signed yet."""
    return Signed(origin, 0, 0, 0, EMPTY_ROOT.hex(), str(START), "")


def sign_tree(signer: Signer, fence: tuple[int, int], size: int, root: bytes, position: Position) -> Signed:
    """Sign a tree; `fence` is (generation, epoch) of who leads."""
    origin = signer.verifier.name
    note = sign_note(str(Checkpoint(origin, size, root)), [signer])
    return Signed(origin, *fence, size, root.hex(), str(position), str(note))


def newest(*found: Signed | None) -> Signed | None:
    """Return the largest of what several places say was signed. Raises DamagedError where they disagree."""
    known = [each for each in found if each is not None]
    if not known:
        return None
    largest = max(known, key=lambda each: each.size)
    if any(each.size == largest.size and each.root != largest.root for each in known):
        raise DamagedError(
            f"two places say that other trees of size {largest.size} were signed: nothing is signed. "
            "Keep both, and look with `rota tlog fsck`"
        )
    return largest


class SignedFile:
    """The copy beside the log."""

    def __init__(self, disk: Disk) -> None:
        """Keep it on this disk."""
        self._slots = Slots(disk, FILE, time.sleep)

    def last(self) -> Signed | None:
        """Return what was signed last. Raises DamagedError, OSError."""
        return _decoded(self._slots.read())

    def size(self) -> int:
        """Return the size of the tree signed last, 0 before the first."""
        last = self.last()
        return last.size if last else 0

    def save(self, signed: Signed) -> None:
        """Replace it under its lock. Raises DamagedError where that would go back, BusyError, OSError."""
        with self._slots.changing() as change:
            refuse_to_go_back(_decoded(change.value), signed)
            change.replace(msgspec.json.encode(asdict(signed)))


def refuse_to_go_back(last: Signed | None, signed: Signed) -> None:
    """Raise DamagedError where a tree does not go on from the one that was signed last."""
    if last is None or last.origin != signed.origin:
        return
    if (last.generation, last.epoch) > (signed.generation, signed.epoch):
        raise DamagedError(
            f"generation {last.generation}, epoch {last.epoch} has signed already: another process "
            "leads now, or this is another database than the one that belongs to the tlog's directory"
        )
    if last.size > signed.size or (last.size == signed.size and last.root != signed.root):
        raise DamagedError(
            f"a tree of {last.size} was signed, and this one of {signed.size} does not go on from it"
        )


def _decoded(value: bytes | None) -> Signed | None:
    try:
        return None if value is None else msgspec.json.decode(value, type=Signed)
    except msgspec.MsgspecError as error:
        raise DamagedError(f"{FILE} cannot be read: {error}") from error
