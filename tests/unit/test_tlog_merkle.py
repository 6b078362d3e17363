"""The Merkle tree against RFC 6962's known trees, and proofs that were tampered with."""

import base64

import pytest

from rota.errors import ProofError
from rota.tlog.merkle import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    parent_hash,
    range_root,
    verify_consistency,
    verify_inclusion,
)

LEAVES = [
    bytes.fromhex(each)
    for each in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    4: "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    6: "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}
INCLUSION = {
    (0, 8): (
        "lqKW0iTyhcZ77pPDD4owkVfw2qNdxbh+QQt4YwoJz8c= Xwg/ChozygdqlSeYMlgNs+DvRYS9/x9UyKNg9Q3jAx4= "
        "a0eq8p7jwq+a+Im8H7klTavTEXfxYjLdaqsDXKOb9uQ="
    ),
    (5, 8): (
        "vBoGQ7EuTS18d5GPROD095qDi2z57FtcKD4fTYhZnms= yoVOoSjtBQtBs1/8G4e46yveRh6eO1WW7Oa51ZdaCuA= "
        "037kGJdt2VdTwcc4Yrk5j6Kiz5tP8P3+izDNlSCWFLc="
    ),
    (2, 3): "+sVCA+fMaWzw38tCySodnbr3CtnmIfS9jZhmLwDjwSU=",
    (1, 5): (
        "bjQLnP+zepicpUTmu3gKLHiQHT+zNzh2hRGjBhevoB0= Xwg/ChozygdqlSeYMlgNs+DvRYS9/x9UyKNg9Q3jAx4= "
        "vBoGQ7EuTS18d5GPROD095qDi2z57FtcKD4fTYhZnms="
    ),
    (6, 7): "DrxdNDf74tsVi58Sah0RjjCBgQMdCpSfje3t68VY72o= 037kGJdt2VdTwcc4Yrk5j6Kiz5tP8P3+izDNlSCWFLc=",
}
CONSISTENCY = {
    (1, 8): INCLUSION[0, 8],
    (6, 8): (
        "DrxdNDf74tsVi58Sah0RjjCBgQMdCpSfje3t68VY72o= yoVOoSjtBQtBs1/8G4e46yveRh6eO1WW7Oa51ZdaCuA= "
        "037kGJdt2VdTwcc4Yrk5j6Kiz5tP8P3+izDNlSCWFLc="
    ),
    (2, 5): "Xwg/ChozygdqlSeYMlgNs+DvRYS9/x9UyKNg9Q3jAx4= vBoGQ7EuTS18d5GPROD095qDi2z57FtcKD4fTYhZnms=",
    (3, 7): (
        "ApjRIpBtz8EIkstTpzmS/FufST6kybrbJ7eRtBJ6f+c= B1Bqhf2d0vEg62lPhgEeW7RmLlxBWmKRcDPUqWJEh+c= "
        "+sVCA+fMaWzw38tCySodnbr3CtnmIfS9jZhmLwDjwSU= g327FS6bB5AQcX6E6GXaTrwPoZioBtWdMb8VrM7yLQ4="
    ),
    (4, 8): "a0eq8p7jwq+a+Im8H7klTavTEXfxYjLdaqsDXKOb9uQ=",
}


class Tree:
    """Every complete subtree of the leaves, hashed plainly."""

    def __init__(self, entries: list[bytes]) -> None:
        self.levels = [[leaf_hash(entry) for entry in entries]]
        while len(self.levels[-1]) > 1:
            below = self.levels[-1]
            self.levels.append([parent_hash(*below[at : at + 2]) for at in range(0, len(below) - 1, 2)])

    def read(self, level: int, index: int) -> bytes:
        return self.levels[level][index]

    def root(self, size: int) -> bytes:
        return range_root(0, size, self.read) if size else EMPTY_ROOT


TREE = Tree(LEAVES)


def unpacked(text: str) -> list[bytes]:
    return [base64.b64decode(each) for each in text.split()]


@pytest.mark.parametrize("size", ROOTS)
def test_the_roots_of_known_trees(size: int) -> None:
    frontier = Frontier()
    for entry in LEAVES[:size]:
        frontier.add(leaf_hash(entry))
    assert frontier.root().hex() == TREE.root(size).hex() == ROOTS[size]


def test_known_hashes_of_a_leaf_and_a_parent() -> None:
    assert leaf_hash(b"L123456").hex() == "395aa064aa4c29f7010acfe3f25db9485bbd4b91897b6ad7ad547639252b4d56"
    parent = parent_hash(b"N123", b"N456").hex()
    assert parent == "aa217fe888e47007fa15edab33c2b492a722cb106c64667fc2b044444de66bbb"


@pytest.mark.parametrize("at", INCLUSION)
def test_known_inclusion_proofs(at: tuple[int, int]) -> None:
    index, size = at
    assert inclusion_proof(index, size, TREE.read) == unpacked(INCLUSION[at])


@pytest.mark.parametrize("sizes", CONSISTENCY)
def test_known_consistency_proofs(sizes: tuple[int, int]) -> None:
    assert consistency_proof(*sizes, TREE.read) == unpacked(CONSISTENCY[sizes])


def tampered(proof: list[bytes], *roots: bytes) -> list[list[bytes]]:
    """Return the proof changed in each way that a forger would try."""
    extra = leaf_hash(b"extra")
    changed = [
        [*proof, extra],
        [extra, *proof],
        *([*proof, root] for root in roots),
        *([root, *proof] for root in roots),
    ]
    for at, step in enumerate(proof):
        flipped = bytes([step[0] ^ 1]) + step[1:]
        changed += [
            [*proof[:at], flipped, *proof[at + 1 :]],
            [*proof[:at], *proof[at + 1 :]],
            [*proof[:at], step, *proof[at:]],
            [*proof[:at], step[:31], *proof[at + 1 :]],
            [*proof[:at], b"", *proof[at + 1 :]],
        ]
    return changed


BIG = Tree([b"leaf %d" % number for number in range(65)])


def test_every_inclusion_proof_of_small_trees_holds_and_no_tampered_one_does() -> None:
    for size in range(1, 34):
        root = BIG.root(size)
        for index in range(size):
            leaf = BIG.read(0, index)
            proof = inclusion_proof(index, size, BIG.read)
            verify_inclusion(leaf, index, size, proof, root)
            other = leaf_hash(b"other")
            claims = [
                *((leaf, index, size, forged, root) for forged in tampered(proof, root)),
                (other, index, size, proof, root),
                (leaf, index, size, proof, other),
                (leaf, index + size, size, proof, root),
                (leaf, -1, size, proof, root),
            ]
            claims += [(leaf, wrong, size, proof, root) for wrong in (index - 1, index + 1, index ^ 2)]
            for claim in claims:
                with pytest.raises(ProofError):
                    verify_inclusion(*claim)


def test_every_consistency_proof_of_small_trees_holds_and_no_tampered_one_does() -> None:
    for new in range(1, 34):
        for old in range(1, new + 1):
            roots = BIG.root(old), BIG.root(new)
            proof = consistency_proof(old, new, BIG.read)
            verify_consistency(old, new, proof, *roots)
            claims = [(old, new, forged, *roots) for forged in tampered(proof, *roots)]
            claims += [(0, new, proof, EMPTY_ROOT, roots[1]), (new + 1, new, proof, *roots)]
            claims += [
                (old, new, proof, leaf_hash(b"x"), roots[1]),
                (old, new, proof, roots[0], leaf_hash(b"x")),
            ]
            if old != new:
                claims += [
                    (old, new, proof, roots[1], roots[0]),
                    (new, old, proof, *roots),
                    (old, new, [], *roots),
                ]
            for claim in claims:
                with pytest.raises(ProofError):
                    verify_consistency(*claim)


def test_a_proof_of_an_entry_that_is_not_there_cannot_be_made() -> None:
    for index, size in ((0, 0), (8, 8), (-1, 8)):
        with pytest.raises(ProofError, match="is not in a tree"):
            inclusion_proof(index, size, TREE.read)
    with pytest.raises(ProofError, match="cannot hold"):
        consistency_proof(5, 4, TREE.read)
    assert consistency_proof(0, 8, TREE.read) == consistency_proof(8, 8, TREE.read) == []


def test_a_frontier_that_does_not_fit_its_size_is_refused() -> None:
    for size, hashes in ((1, []), (2, [EMPTY_ROOT, EMPTY_ROOT]), (1, [b"short"]), (0, [EMPTY_ROOT])):
        with pytest.raises(ProofError, match="at its edge"):
            Frontier(size, hashes)
    assert Frontier().root() == EMPTY_ROOT
