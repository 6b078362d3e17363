"""Lines of any bytes, in any pieces; what is written and what is lost is all that was produced."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.logs.entry import LONGEST, Cutter, Entry, Line
from rota.logs.parcel import lined
from rota.logs.shelf import Shelf, Wanted
from rota.logs.spool import Spool, last_lines

texts = st.lists(
    st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b"")), max_size=30
)


@given(texts, st.lists(st.integers(1, 50), max_size=40))
def test_lines_are_the_same_in_whatever_pieces_they_come(lines: list[bytes], sizes: list[int]) -> None:
    data, cutter, found = b"".join(line + b"\n" for line in lines), Cutter(), list[Line]()
    for size in sizes:
        found += cutter.feed(data[:size])
        data = data[size:]
    found += cutter.feed(data)
    assert found == [Line(line) for line in lines]
    assert cutter.end() == []


@given(st.integers(0, 3 * LONGEST), st.integers(1, LONGEST))
def test_a_long_line_is_cut_once_and_says_so(length: int, size: int) -> None:
    cutter, found, data = Cutter(), list[Line](), b"x" * length + b"\nnext\n"
    for start in range(0, len(data), size):
        found += cutter.feed(data[start : start + size])
    assert found == [Line(b"x" * min(length, LONGEST), cut=length > LONGEST), Line(b"next")]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.one_of(st.integers(1, 30), st.just(0)), max_size=40), st.integers(200, 3000))
def test_written_and_dropped_make_what_was_produced_exactly(turns: list[int], bound: int) -> None:
    """A turn of 0 ships what waits; others write so many lines."""
    with TemporaryDirectory() as place:
        spool, produced, shipped = Spool(Path(place) / "x", bound), 0, list[Entry]()
        for count in [*turns, 0, 1, 0]:
            if count:
                spool.put([Line(b"some text")] * count)
                produced += count
                continue
            while (batch := spool.batch())[0]:
                shipped += batch[0]
                spool.done(batch[1])
        assert [entry.number for entry in shipped] == list(range(1, len(shipped) + 1))
        assert len(shipped) + sum(entry.dropped for entry in shipped) == produced
        spool.close()


def test_a_reader_that_ended_well_goes_on_without_a_gap(tmp_path: Path) -> None:
    first = Spool(tmp_path / "x")
    first.put([Line(b"one"), Line(b"two")])
    first.close()
    second = Spool(tmp_path / "x")
    second.put([Line(b"three")])
    assert [(entry.number, entry.dropped) for entry in second.batch()[0]] == [(1, 0), (2, 0), (3, 0)]
    assert last_lines(tmp_path / "x") == "one\ntwo\nthree"
    second.close()


def test_one_that_was_killed_leaves_a_gap_of_unknown_size_and_no_half_line(tmp_path: Path) -> None:
    first = Spool(tmp_path / "x")
    first.put([Line(b"one")])
    with (tmp_path / "x" / "1").open("ab") as file:
        file.write(b'[2,17,"ha')
    second = Spool(tmp_path / "x")
    second.put([Line(b"two")])
    found = second.batch()[0]
    assert [(entry.number, entry.text, entry.dropped) for entry in found] == [(1, "one", 0), (2, "two", -1)]
    second.close()


@given(st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=8), max_size=8))
def test_what_is_brought_twice_is_kept_once(parcels: list[list[int]]) -> None:
    with TemporaryDirectory() as place:
        shelf, highest, kept = Shelf(Path(place), 10_000_000), 0, 0
        for parcel in parcels:
            fresh = sorted({number for number in parcel if number > highest})
            lines = [lined("s1", "shop.web.1@3", Entry(n, n, f"line {n}")) for n in sorted(parcel)]
            assert Shelf(Path(place), 10_000_000).append(lines) == len(fresh)
            highest, kept = max([highest, *fresh]), kept + len(fresh)
        found, _ = shelf.newest("shop", Wanted(), 1000)
        assert len(found) == kept
        assert [line.number for line in found] == sorted(line.number for line in found)
