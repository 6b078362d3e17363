"""What to make of bytes at a record file's end that are no frame. No I/O.

A write that was cut off leaves a beginning of a frame, or, after a power
failure, sectors that are all zeros. Only that may be cut away: it was never
answered. Anything else was once whole, may have been answered, and is damage.
"""

from rota.errors import DamagedError, MalformedError
from rota.tlog.frames import HEAD_SIZE, MAGIC, read_frame, read_head

SECTOR = 512


def refuse_if_damaged(rest: bytes, offset: int, where: str) -> None:
    """Return when `rest`, from this offset to the file's end, is what a torn write leaves.

    `rest` does not begin with a sound frame, and is not empty. Raises
    DamagedError, with `where` naming the file, for anything else.
    """
    if _lost_sector(rest, offset):
        _refuse_followed(rest, offset, where)
        return
    if len(rest) < HEAD_SIZE:
        if MAGIC.startswith(rest[: len(MAGIC)]):
            return
        raise _damaged(offset, where, "no header begins there")
    try:
        head = read_head(rest)
    except MalformedError as error:
        raise _damaged(offset, where, str(error)) from error
    if len(rest) >= head.total:
        raise _damaged(offset, where, "the frame is whole in length, and its checksum is wrong")


def _lost_sector(rest: bytes, offset: int) -> bool:
    """Tell whether some sector of the file holds nothing but zeros, as far as it lies in `rest`."""
    at = 0
    while at < len(rest):
        end = min(len(rest), at + SECTOR - (offset + at) % SECTOR)
        if not any(rest[at:end]):
            return True
        at = end
    return False


def _refuse_followed(rest: bytes, offset: int, where: str) -> None:
    """Raise where a sound frame follows: nobody writes on after what was torn."""
    at = rest.find(MAGIC, 1)
    while at >= 0:
        try:
            read_frame(rest, at)
        except MalformedError:
            at = rest.find(MAGIC, at + 1)
            continue
        raise _damaged(offset, where, f"a sound frame follows at {offset + at}")


def _damaged(offset: int, where: str, reason: str) -> DamagedError:
    return DamagedError(
        f"{where} is damaged at byte {offset}: {reason}. Nothing is appended or signed. "
        "Look with `rota tlog fsck`, and put back a copy of the file that is whole"
    )
