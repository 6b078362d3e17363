"""The published tree: reckoned anew, read back only if every tile fits, and never changed."""

from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.errors import DamagedError, MalformedError, ProofError, TlogError
from rota.tlog.checkpoint import Checkpoint
from rota.tlog.keys import signer
from rota.tlog.merkle import EMPTY_ROOT, Frontier, consistency_proof, leaf_hash, verify_consistency
from rota.tlog.notes import sign_note
from rota.tlog.publication import Publication
from rota.tlog.tiles import Tile, bundle, entries_of, tiles_of
from rota.tlog.tree import TileHashes, Tree
from rota.tlog.view import AbsentError, View

LOG = signer("hub.example/tlog", b"l" * 32)
MOST = 70_000


def entry(index: int) -> bytes:
    return b"leaf %d" % index


class Files:
    """Published files in memory."""

    def __init__(self, size: int) -> None:
        self.tree = Tree()
        self.files: dict[Tile, bytes] = {}
        for index in range(size):
            self.files.update(self.tree.add(entry(index)))
        self.files.update(self.tree.partial())

    def read(self, tile: Tile) -> bytes:
        return self.files[tile]


@pytest.fixture(scope="module")
def big() -> Files:
    return Files(MOST)


def root_of(size: int) -> bytes:
    frontier = Frontier()
    for index in range(size):
        frontier.add(leaf_hash(entry(index)))
    return frontier.root()


def test_a_known_root_of_seventy_thousand(big: Files) -> None:
    assert b64encode(big.tree.root()).decode() == "2gUy/3su5W9AZxEPyWTp8ntZWflSe//z+lAap1hN6vM="
    assert set(big.files) >= set(tiles_of(MOST))
    assert big.tree.root() == root_of(MOST)


@given(st.integers(0, 1200), st.integers(0, 300))
@settings(max_examples=40, deadline=None)
def test_a_tree_that_was_loaded_grows_as_the_one_that_was_not(size: int, more: int) -> None:
    files = Files(size)
    loaded = Tree.load(size, files.read)
    assert loaded.root() == files.tree.root()
    for index in range(size, size + more):
        assert list(loaded.add(entry(index))) == list(files.tree.add(entry(index)))
    assert (loaded.size, loaded.root()) == (size + more, files.tree.root())
    assert list(loaded.partial()) == list(files.tree.partial())


def test_a_tree_is_not_loaded_from_entries_that_do_not_have_its_hashes() -> None:
    files = Files(300)
    files.files[Tile(None, 1, 44)] = bundle([b"forged", *(entry(index) for index in range(257, 300))])
    with pytest.raises(ProofError, match="do not have its hashes"):
        Tree.load(300, files.read)


@pytest.mark.parametrize("size", [1, 255, 256, 257, 511, 70_000, 65_535, 65_793])
def test_a_forged_tile_is_refused_wherever_it_is(size: int, big: Files) -> None:
    """Each tile is compared with the one above it, and the edge with the root."""
    files = big if size == MOST else Files(size)
    root = files.tree.root()
    hashes = [tile for tile in tiles_of(size) if tile.level is not None]
    chosen = hashes if len(hashes) < 40 else [*hashes[:3], *hashes[100:103], *hashes[-8:]]
    for tile in chosen:
        for place in {0, tile.width // 2, tile.width - 1}:
            data = bytearray(files.files[tile])
            data[place * 32] ^= 1

            def read(asked: Tile, tile: Tile = tile, data: bytes = bytes(data)) -> bytes:
                return data if asked == tile else files.read(asked)

            assert tile.level is not None
            with pytest.raises(ProofError):
                TileHashes(size, root, read)(8 * tile.level, tile.number * 256 + place)


def test_tiles_of_a_wrong_length_and_places_that_are_not_there() -> None:
    files = Files(300)
    hashes = TileHashes(300, files.tree.root(), files.read)
    assert hashes(0, 299) == leaf_hash(entry(299))
    for level, index in ((0, 300), (1, 150), (8, 1), (9, 0), (16, 0)):
        with pytest.raises(ProofError):
            hashes(level, index)
    short = TileHashes(300, files.tree.root(), lambda tile: files.read(tile)[:-1])
    with pytest.raises(MalformedError):
        short(0, 0)


@given(st.integers(1, 700), st.integers(1, 700))
@settings(max_examples=25, deadline=None)
def test_proofs_from_tiles_join_any_two_sizes(one: int, other: int) -> None:
    old, new = sorted((one, other))
    files = Files(new)
    proof = consistency_proof(old, new, TileHashes(new, files.tree.root(), files.read))
    verify_consistency(old, new, proof, root_of(old), files.tree.root())


def published(place: Path, size: int, *, checkpoint: bool = True) -> Publication:
    publication = Publication(place)
    files = Files(size)
    for tile, data in files.files.items():
        publication.write(tile, data)
    publication.sync()
    if checkpoint:
        note = sign_note(str(Checkpoint(LOG.verifier.name, size, files.tree.root())), [LOG])
        publication.publish(str(note).encode())
    return publication


def test_a_file_is_written_once_and_for_ever(tmp_path: Path) -> None:
    publication = published(tmp_path, 3)
    tile = Tile(0, 0, 3)
    publication.write(tile, publication.read(tile))
    with pytest.raises(DamagedError, match="is published"):
        publication.write(tile, bytes(96))
    assert len(list((tmp_path / "pub").rglob(".*"))) == 0, "a draft was left"


def test_a_partial_file_that_was_taken_away_is_read_from_the_full_one(tmp_path: Path) -> None:
    publication = published(tmp_path, 100)
    partial = {tile: publication.read(tile) for tile in (Tile(0, 0, 100), Tile(None, 0, 100))}
    publication.drop_partials(Tile(0, 0))
    assert publication.read(Tile(0, 0, 100)), "there is no full one yet"
    published(tmp_path, 256)
    for tile, data in partial.items():
        publication.drop_partials(tile.full)
        assert not (tmp_path / "pub" / tile.path).exists()
        assert publication.read(tile) == data
    publication.drop_partials(Tile(0, 0))
    assert entries_of(publication.read(Tile(None, 0, 7)), 7) == [entry(index) for index in range(7)]
    with pytest.raises(FileNotFoundError):
        publication.read(Tile(0, 9, 3))


def test_entries_are_given_out_with_proofs_that_hold_or_not_at_all(tmp_path: Path) -> None:
    view = View(published(tmp_path, 300, checkpoint=False))
    with pytest.raises(AbsentError, match="nothing is signed"):
        view.entry(0)
    published(tmp_path, 300)
    for index in (0, 255, 256, 299):
        assert view.entry(index).entry == entry(index)
    for index in (-1, 300):
        with pytest.raises(AbsentError):
            view.entry(index)
    path = tmp_path / "pub" / "tile" / "entries" / "000"
    path.chmod(0o600)
    path.write_bytes(bundle([b"forged", *(entry(index) for index in range(1, 256))]))
    with pytest.raises(TlogError):
        view.entry(0)
    assert view.entry(1).entry == entry(1)


def test_an_empty_tree() -> None:
    assert Tree().root() == EMPTY_ROOT
    assert list(Tree().partial()) == []
    assert Tree.load(0, lambda _: b"").size == 0
