"""Self-contained proofs (c2sp.org/tlog-proof@v1): that an entry is in a log, for those who are offline."""

from dataclasses import dataclass

from rota.errors import MalformedError
from rota.tlog.checkpoint import Checkpoint
from rota.tlog.merkle import leaf_hash, verify_inclusion
from rota.tlog.policy import Policy
from rota.tlog.strict import decoded, encoded, hash_of, number

HEADER = "c2sp.org/tlog-proof@v1"
LONGEST_PATH = 63  # hashes
LONGEST = 131_072  # bytes


@dataclass(frozen=True)
class Proof:
    """An index, its path and a signed checkpoint; `extra` is vouched for by nobody."""

    index: int
    path: tuple[bytes, ...]
    checkpoint: bytes
    extra: bytes | None = None

    def __bytes__(self) -> bytes:
        """Write it as a .tlog-proof file."""
        extra = [] if self.extra is None else [f"extra {encoded(self.extra)}"]
        lines = [HEADER, *extra, f"index {self.index}", *map(encoded, self.path), "", ""]
        return "\n".join(lines).encode() + self.checkpoint


def parse_proof(data: bytes) -> Proof:
    """Read a .tlog-proof file; its checkpoint is not looked at. Raises MalformedError."""
    head, blank, checkpoint = data.partition(b"\n\n")
    if len(data) > LONGEST or not blank:
        raise MalformedError("a proof is a few lines, an empty one, and a checkpoint")
    try:
        lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise MalformedError("the lines of a proof are ASCII") from error
    if lines.pop(0) != HEADER:
        raise MalformedError(f"a proof begins with {HEADER}")
    extra = None
    if lines and lines[0].startswith("extra "):
        extra = decoded(lines.pop(0).removeprefix("extra "))
    if not lines or not lines[0].startswith("index "):
        raise MalformedError("a proof names the index of its entry")
    index = number(lines.pop(0).removeprefix("index "))
    if len(lines) > LONGEST_PATH:
        raise MalformedError(f"a proof has at most {LONGEST_PATH} hashes")
    return Proof(index, tuple(map(hash_of, lines)), checkpoint, extra)


def verify_proof(proof: Proof, entry: bytes, policy: Policy, now: int) -> Checkpoint:
    """Check that this very entry is in a log that the policy trusts; return the log's checkpoint.

    The leaf hash comes from the entry's own bytes, never from the proof. `now`
    is in seconds since 1970. Raises MalformedError, SignatureError or ProofError.
    """
    checkpoint = policy.check(proof.checkpoint, now)
    verify_inclusion(leaf_hash(entry), proof.index, checkpoint.size, proof.path, checkpoint.root)
    return checkpoint
