"""The log's formats under everything that Hypothesis thinks of."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.errors import ProofError, TlogError
from rota.tlog.addcheckpoint import parse_request
from rota.tlog.checkpoint import Checkpoint, parse_checkpoint
from rota.tlog.keys import read_verifier, signer
from rota.tlog.merkle import (
    Frontier,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    parent_hash,
    range_root,
    verify_consistency,
    verify_inclusion,
)
from rota.tlog.notes import parse_note, sign_note
from rota.tlog.policy import parse_policy
from rota.tlog.proof import parse_proof
from rota.tlog.tiles import Tile, bundle, entries_of, holding, implied, parse_path, tiles_of

MOST = 3000
LEVELS = [[leaf_hash(b"leaf %d" % number) for number in range(MOST)]]
while len(LEVELS[-1]) > 1:
    LEVELS.append([parent_hash(*LEVELS[-1][at : at + 2]) for at in range(0, len(LEVELS[-1]) - 1, 2)])
LOG = signer("hub.example/tlog", bytes(range(32)))
GOOD = str(sign_note(str(Checkpoint("hub.example/tlog", 8, LEVELS[3][0])), [LOG])).encode()


def read(level: int, index: int) -> bytes:
    return LEVELS[level][index]


@st.composite
def places(draw: st.DrawFn) -> tuple[int, int]:
    size = draw(st.integers(1, MOST))
    return draw(st.integers(0, size - 1)), size


@given(places(), st.integers(0, 2**256), st.data())
@settings(deadline=None)
def test_a_proof_of_inclusion_holds_for_its_leaf_and_place_alone(
    place: tuple[int, int], noise: int, data: st.DataObject
) -> None:
    index, size = place
    root = range_root(0, size, read)
    proof = inclusion_proof(index, size, read)
    verify_inclusion(read(0, index), index, size, proof, root)
    if proof:
        at = data.draw(st.integers(0, len(proof) - 1))
        forged = [*proof[:at], noise.to_bytes(33, "big")[1:], *proof[at + 1 :]]
        if forged != proof:
            assert refused(read(0, index), index, size, forged, root)
    assert refused(leaf_hash(noise.to_bytes(33, "big")), index, size, proof, root)


def refused(leaf: bytes, index: int, size: int, proof: list[bytes], root: bytes) -> bool:
    try:
        verify_inclusion(leaf, index, size, proof, root)
    except ProofError:
        return True
    return False


@given(st.integers(1, MOST), st.integers(1, MOST))
@settings(deadline=None)
def test_any_two_sizes_are_joined_by_a_proof(one: int, other: int) -> None:
    old, new = sorted((one, other))
    proof = consistency_proof(old, new, read)
    verify_consistency(old, new, proof, range_root(0, old, read), range_root(0, new, read))


@given(st.integers(0, 600), st.integers(0, 600))
@settings(deadline=None)
def test_a_frontier_grows_to_the_same_root_from_any_size(start: int, more: int) -> None:
    frontier = Frontier()
    for number in range(start):
        frontier.add(read(0, number))
    grown = Frontier(frontier.size, frontier.hashes)
    for number in range(start, start + more):
        grown.add(read(0, number))
    if start + more:
        assert grown.root() == range_root(0, start + more, read)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_tiles_written_step_by_step_are_those_of_the_whole(one: int, other: int) -> None:
    since, size = sorted((one, other))
    full_before = {tile for tile in tiles_of(since) if tile == tile.full}
    steps = full_before | set(tiles_of(size, since))
    assert set(tiles_of(size)) <= steps
    assert all(implied(tile, size) for tile in steps)


@given(st.integers(1, 2**40), st.data())
@settings(deadline=None)
def test_every_hash_of_a_tree_lies_in_a_tile_of_it(size: int, data: st.DataObject) -> None:
    level = data.draw(st.integers(0, 4).filter(lambda level: size >> (8 * level)))
    index = data.draw(st.integers(0, (size >> (8 * level)) - 1))
    tile, place = holding(level, index, size)
    assert place < tile.width
    assert tile.number * 256 + place == index
    assert implied(tile, size)
    assert parse_path(tile.path) == tile


@given(st.lists(st.binary(max_size=300), max_size=256))
@settings(deadline=None)
def test_a_bundle_gives_back_its_entries(entries: list[bytes]) -> None:
    assert entries_of(bundle(entries), len(entries)) == entries


@given(st.builds(Tile, st.none() | st.integers(0, 63), st.integers(0, 10**18 - 1), st.integers(1, 256)))
@settings(deadline=None)
def test_a_path_is_read_as_it_was_written(tile: Tile) -> None:
    assert parse_path(tile.path) == tile


PARSERS = (
    parse_note,
    parse_proof,
    parse_request,
    parse_policy,
    lambda data: parse_path(data.decode("latin-1")),
    lambda data: read_verifier(data.decode("latin-1")),
    lambda data: parse_checkpoint(data.decode("latin-1")),
)


@given(st.sampled_from(PARSERS), st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
@settings(max_examples=300, deadline=None)
def test_parsers_refuse_rubbish_with_an_error_of_ours(parser: object, data: bytes) -> None:
    assert callable(parser)
    try:
        parser(data)
    except TlogError:
        return


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
@settings(deadline=None)
def test_what_is_read_from_a_changed_note_is_written_as_it_was_read(at: int, byte: int) -> None:
    changed = GOOD[:at] + bytes([byte]) + GOOD[at + 1 :]
    try:
        note = parse_note(changed)
        checkpoint = parse_checkpoint(note.text)
    except TlogError:
        return
    assert str(note).encode() == changed
    assert str(checkpoint) == note.text
