"""The Merkle tree of RFC 6962: hashes, roots and proofs. No I/O.

A complete subtree is named by (level, index): it covers the leaves from
index·2^level on, 2^level of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256

from rota.errors import ProofError
from rota.tlog.strict import HASH_SIZE

EMPTY_ROOT = sha256(b"").digest()

# Gives the hash of the complete subtree (level, index).
ReadHash = Callable[[int, int], bytes]

_parent_prefix = sha256(b"\x01")


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of one entry."""
    return sha256(b"\x00" + entry).digest()


def parent_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash above two."""
    hasher = _parent_prefix.copy()
    hasher.update(left + right)
    return hasher.digest()


class Frontier:
    """The right edge of a tree that grows: one hash for each one-bit of its size, the largest first."""

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        """Go on from a tree of this size with these edge hashes. Raises ProofError where they do not fit."""
        self.size = size
        self.hashes = list(hashes)
        if len(self.hashes) != size.bit_count() or any(len(each) != HASH_SIZE for each in self.hashes):
            raise ProofError(f"a tree of {size} entries has {size.bit_count()} hashes at its edge")

    def add(self, leaf: bytes) -> None:
        """Append one leaf hash."""
        size = self.size
        while size & 1:
            leaf = parent_hash(self.hashes.pop(), leaf)
            size >>= 1
        self.hashes.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """Return the root of the tree as it stands."""
        return _folded(self.hashes)

    def copy(self) -> "Frontier":
        """Return one that grows apart from this one."""
        return Frontier(self.size, self.hashes)


def _folded(hashes: Sequence[bytes]) -> bytes:
    if not hashes:
        return EMPTY_ROOT
    root = hashes[-1]
    for left in reversed(hashes[:-1]):
        root = parent_hash(left, root)
    return root


def subtrees(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield (level, index) of the complete subtrees that make up the leaves [start, end), in order."""
    while start < end:
        level = (end - start).bit_length() - 1
        if start:
            level = min(level, (start & -start).bit_length() - 1)
        yield level, start >> level
        start += 1 << level


def range_root(start: int, end: int, read: ReadHash) -> bytes:
    """Return the root over the leaves [start, end) of a larger tree, `start` being where RFC 6962 splits."""
    return _folded([read(level, index) for level, index in subtrees(start, end)])


def inclusion_proof(index: int, size: int, read: ReadHash) -> list[bytes]:
    """Return the path from a leaf up to the root of a tree. Raises ProofError when it is not in it."""
    if not 0 <= index < size:
        raise ProofError(f"entry {index} is not in a tree of {size}")
    path = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(range_root(middle, end, read))
            end = middle
        else:
            path.append(range_root(start, middle, read))
            start = middle
    return path[::-1]


def consistency_proof(old: int, new: int, read: ReadHash) -> list[bytes]:
    """Return the proof that a tree of `new` entries begins with the one of `old`. Raises ProofError."""
    if not 0 <= old <= new:
        raise ProofError(f"a tree of {new} cannot hold one of {old}")
    if old in (0, new):
        return []
    proof: list[bytes] = []
    start, end, whole = 0, new, True
    while old != end:
        middle = start + _split(end - start)
        if old <= middle:
            proof.append(range_root(middle, end, read))
            end = middle
        else:
            proof.append(range_root(start, middle, read))
            start, whole = middle, False
    if not whole:
        proof.append(range_root(start, end, read))
    return proof[::-1]


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Check a path from a leaf hash to a root (RFC 9162, 2.1.3.2). Raises ProofError."""
    _check_sizes([leaf, root, *path])
    if not 0 <= index < size:
        raise ProofError(f"entry {index} is not in a tree of {size}")
    fn, sn, found = index, size - 1, leaf
    for step in path:
        if sn == 0:
            raise ProofError("the inclusion proof is too long")
        if fn & 1 or fn == sn:
            found = parent_hash(step, found)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            found = parent_hash(found, step)
        fn, sn = fn >> 1, sn >> 1
    if sn or found != root:
        raise ProofError("the inclusion proof does not lead to the root")


def verify_consistency(old: int, new: int, proof: Sequence[bytes], old_root: bytes, new_root: bytes) -> None:
    """Check that the newer tree begins with the older (RFC 9162, 2.1.4.2). Raises ProofError.

    `old` is at least 1: that every tree begins with the empty one, nobody can
    get wrong, and a caller that means it says so itself.
    """
    _check_sizes([old_root, new_root, *proof])
    if not 0 < old <= new:
        raise ProofError(f"no consistency proof joins a tree of {old} to one of {new}")
    if old == new:
        if proof or old_root != new_root:
            raise ProofError("two trees of one size differ")
        return
    steps = list(proof) if old & (old - 1) else [old_root, *proof]
    if not steps:
        raise ProofError("the consistency proof is empty")
    if _climbed(old - 1, new - 1, steps) != (old_root, new_root):
        raise ProofError("the consistency proof does not join the two roots")


def _climbed(fn: int, sn: int, steps: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """Return the two roots that a consistency proof leads to, None when it is of a wrong length."""
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    first = second = steps[0]
    for step in steps[1:]:
        if sn == 0:
            return None
        if fn & 1 or fn == sn:
            first, second = parent_hash(step, first), parent_hash(step, second)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            second = parent_hash(second, step)
        fn, sn = fn >> 1, sn >> 1
    return None if sn else (first, second)


def _split(count: int) -> int:
    """Return the largest power of two below a count of at least two."""
    return 1 << ((count - 1).bit_length() - 1)


def _check_sizes(hashes: Iterable[bytes]) -> None:
    if any(len(each) != HASH_SIZE for each in hashes):
        raise ProofError(f"every hash has {HASH_SIZE} bytes")
