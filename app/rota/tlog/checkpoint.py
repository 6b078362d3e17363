"""Checkpoints (c2sp.org/tlog-checkpoint): what a log was, in three lines."""

from dataclasses import dataclass

from rota.errors import MalformedError
from rota.tlog.merkle import EMPTY_ROOT
from rota.tlog.strict import encoded, hash_of, number

BODY_LINES = 3


@dataclass(frozen=True)
class Checkpoint:
    """The tree of one log at one size; `extensions` are further lines, which our own log never writes."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Write it as the text of a note."""
        lines = (self.origin, str(self.size), encoded(self.root), *self.extensions)
        return "".join(f"{line}\n" for line in lines)


def parse_checkpoint(text: str) -> Checkpoint:
    """Read the text of a note. Raises MalformedError."""
    lines = text.split("\n")
    if len(lines) <= BODY_LINES or lines.pop() or not all(lines):
        raise MalformedError("a checkpoint is an origin, a size, a root, and no empty line")
    found = Checkpoint(lines[0], number(lines[1]), hash_of(lines[2]), tuple(lines[BODY_LINES:]))
    if found.size == 0 and found.root != EMPTY_ROOT:
        raise MalformedError("the root of an empty tree is the hash of nothing")
    return found
