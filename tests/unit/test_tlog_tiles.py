"""How a tree is cut into files: names, counts, bundles."""

import pytest

from rota.errors import MalformedError
from rota.tlog.tiles import Tile, bundle, entries_of, hashes_of, holding, implied, parse_path, tiles_of

PATHS = {
    Tile(0, 0): "tile/0/000",
    Tile(0, 5): "tile/0/005",
    Tile(0, 0, 255): "tile/0/000.p/255",
    Tile(1, 1234067): "tile/1/x001/x234/067",
    Tile(15, 455667): "tile/15/x455/667",
    Tile(15, 123456789, 41): "tile/15/x123/x456/789.p/41",
    Tile(None, 255, 253): "tile/entries/255.p/253",
    Tile(63, 999999999999999999, 255): "tile/63/x999/x999/x999/x999/x999/999.p/255",
}
WRONG = [
    *(
        f"tile/0/{name}"
        for name in (
            "x001/x234/067.p/", "x001/x234/067.p", "x001/x234/", "x001/x234", "x001/", "x001", "x001/.p/abc",
            "001/002", "x001/0002", "x001/-002", "x001/002.p/256", "x001/002.p/999",
            "x999/x999/x999/x999/x999/x999/999",
            "000.p/0", "000.p/01", "x000/001", "%2e%2e", "..", "\u0660\u0660\u0661", "+1", "1_0", "001\n",
            "01", "1", "", "001.P/1",
            "001.p/-1", "001.p/1/2",
        )
    ),
    *(f"tile/{level}/000" for level in ("64", "-1", "abc", "00", "007", "", "\u0663", "Entries", "100")),
    "tile/000", "/tile/0/000", "tile//000", "Tile/0/000", "tile/0/000/", "tile/0/000 ", "",
]  # fmt: skip


@pytest.mark.parametrize("tile", PATHS)
def test_a_tile_has_one_path(tile: Tile) -> None:
    assert tile.path == PATHS[tile]
    assert parse_path(tile.path) == tile


@pytest.mark.parametrize("path", WRONG)
def test_any_other_spelling_is_refused(path: str) -> None:
    with pytest.raises(MalformedError):
        parse_path(path)


def paths(size: int, since: int = 0) -> list[str]:
    return [tile.path for tile in tiles_of(size, since)]


def test_what_a_tree_needs() -> None:
    assert paths(0) == []
    assert paths(1) == ["tile/entries/000.p/1", "tile/0/000.p/1"]
    assert paths(256) == ["tile/entries/000", "tile/0/000", "tile/1/000.p/1"]
    assert paths(257, 256) == ["tile/entries/001.p/1", "tile/0/001.p/1", "tile/1/000.p/1"]
    of_70000 = [tile for tile in tiles_of(70_000) if tile.level is not None]
    assert len(of_70000) == 274 + 2 + 1
    assert [tile.path for tile in of_70000 if tile.width < 256] == [
        "tile/0/273.p/112",
        "tile/1/001.p/17",
        "tile/2/000.p/1",
    ]


def test_where_a_hash_lies() -> None:
    assert holding(0, 251, 255) == (Tile(0, 0, 255), 251)
    assert holding(0, 3, 257) == (Tile(0, 0), 3)
    assert holding(0, 256, 257) == (Tile(0, 1, 1), 0)
    assert holding(1, 272, 70_000) == (Tile(1, 1, 17), 16)


def test_what_a_tree_of_a_size_implies() -> None:
    assert implied(Tile(0, 0, 112), 112)
    assert implied(Tile(0, 0, 111), 112)
    assert not implied(Tile(0, 0, 113), 112)
    assert implied(Tile(1, 0, 1), 256)
    assert not implied(Tile(1, 0, 1), 255)
    assert implied(Tile(None, 0), 256)
    assert not implied(Tile(63, 0, 1), 2**62)


HEX = " 00 10 2021 3031 40414243 5051525354555657 606162636465666768696a6b6c6d6e6f"
ENTRIES = [bytes.fromhex(each) for each in HEX.split(" ")]
BUNDLE = (
    "00000001000001100002202100023031000440414243000850515253545556570010606162636465666768696a6b6c6d6e6f"
)


def test_a_bundle_holds_the_very_entries() -> None:
    assert bundle(ENTRIES).hex() == BUNDLE
    assert entries_of(bytes.fromhex(BUNDLE), 8) == ENTRIES
    assert entries_of(b"", 0) == []
    assert entries_of(bundle([b"x" * 65_535]), 1) == [b"x" * 65_535]


def test_what_is_no_bundle_and_no_tile() -> None:
    data = bytes.fromhex(BUNDLE)
    for wrong, count in (
        (data[:-1], 8),
        (data + b"\x00", 8),
        (data, 7),
        (data, 9),
        (data[:6], 3),
        (data[:6], 2),
        (b"", 1),
    ):
        with pytest.raises(MalformedError):
            entries_of(wrong, count)
    with pytest.raises(MalformedError, match="65535"):
        bundle([b"x" * 65_536])
    assert hashes_of(b"a" * 32 + b"b" * 32, 2) == [b"a" * 32, b"b" * 32]
    for size in (0, 32, 63, 65, 96):
        with pytest.raises(MalformedError):
            hashes_of(bytes(size), 2)
