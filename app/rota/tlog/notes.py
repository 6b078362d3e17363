"""Signed notes (c2sp.org/signed-note): a text and the lines of those who signed it."""

from collections.abc import Sequence
from dataclasses import dataclass

from rota.errors import MalformedError
from rota.tlog.keys import ED25519, Signer, good_name
from rota.tlog.strict import decoded, encoded

LONGEST = 65_536  # bytes of a whole note
MOST_SIGNATURES = 100

_DASH = "\u2014 "
_ID_SIZE = 4


@dataclass(frozen=True)
class Signature:
    """One line: who says to have signed, and the bytes after the key's id."""

    name: str
    key_id: bytes
    data: bytes

    def __str__(self) -> str:
        """Write it as a line, without its end."""
        return f"{_DASH}{self.name} {encoded(self.key_id + self.data)}"


@dataclass(frozen=True)
class Note:
    """A text, ending in a line feed, and its signatures, none of them checked."""

    text: str
    signatures: tuple[Signature, ...]

    def __str__(self) -> str:
        """Write the note as it is passed on."""
        return f"{self.text}\n" + "".join(f"{each}\n" for each in self.signatures)


def parse_note(data: bytes) -> Note:
    """Read a note. Raises MalformedError for whatever is not exactly one."""
    if len(data) > LONGEST:
        raise MalformedError(f"a note has at most {LONGEST} bytes")
    try:
        whole = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError("a note is UTF-8") from error
    if any(sign < " " and sign != "\n" for sign in whole):
        raise MalformedError("a note holds no control characters")
    text, blank, lines = whole.rpartition("\n\n")
    if not blank or not lines.endswith("\n"):
        raise MalformedError("a note is a text, an empty line, and signature lines")
    return Note(text + "\n", parse_signatures(lines))


def parse_signatures(lines: str) -> tuple[Signature, ...]:
    """Read signature lines, each with its end. Raises MalformedError."""
    if not lines.endswith("\n"):
        raise MalformedError("a signature line ends in a line feed")
    each = lines[:-1].split("\n")
    if len(each) > MOST_SIGNATURES:
        raise MalformedError(f"a note has at most {MOST_SIGNATURES} signatures")
    return tuple(map(_signature, each))


def _signature(line: str) -> Signature:
    name, _, data = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not good_name(name):
        raise MalformedError(f"not a signature line: {line[:40]!r}")
    payload = decoded(data)
    if len(payload) <= _ID_SIZE:
        raise MalformedError(f"{name}: a signature without bytes")
    return Signature(name, payload[:_ID_SIZE], payload[_ID_SIZE:])


def sign_note(text: str, signers: Sequence[Signer]) -> Note:
    """Sign a text, which ends in a line feed, with Ed25519 keys."""
    if not text.endswith("\n"):
        raise MalformedError("the text of a note ends in a line feed")
    lines = []
    for each in signers:
        if each.verifier.kind != ED25519:
            raise MalformedError(f"{each.verifier.name}: cosigns, and does not sign")
        lines.append(Signature(each.verifier.name, each.verifier.id, each.sign(text.encode())))
    return parse_note(str(Note(text, tuple(lines))).encode())
