"""The shelf: what is kept, found, followed, and deleted."""

from pathlib import Path

from rota.logs.entry import Entry
from rota.logs.parcel import Lined, lined
from rota.logs.shelf import INDEX, Shelf, Wanted


def line(number: int, copy: str = "shop.web.1@3", server: str = "s1", text: str = "") -> Lined:
    return lined(server, copy, Entry(number, number * 1_000_000, text or f"line {number}"))


def numbers(found: list[Lined]) -> list[int]:
    return [each.number for each in found]


def test_lines_of_two_servers_stand_in_one_place_and_are_told_apart(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, 1_000_000)
    shelf.append(
        [line(1), line(1, "shop.web.2@3", "s2"), line(1, "shop.worker.1@4"), line(1, "blog.web.1@1")]
    )

    def found(**wanted: object) -> list[tuple[str, str]]:
        lines, _ = shelf.newest("shop", Wanted(**wanted), 100)  # type: ignore[arg-type]
        return [(each.instance, each.server) for each in lines]

    assert found() == [("shop.web.1", "s1"), ("shop.web.2", "s2"), ("shop.worker.1", "s1")]
    assert found(server="s2") == [("shop.web.2", "s2")]
    assert found(process_type="worker") == [("shop.worker.1", "s1")]
    assert found(release=4) == [("shop.worker.1", "s1")]
    assert found(instance="shop.web.1") == [("shop.web.1", "s1")]
    assert found(since=1_000_001) == []
    assert found(contains="nothing like it") == []
    assert shelf.newest("other", Wanted(), 10)[0] == []


def test_the_newest_are_given_in_their_order_and_what_follows_after_them(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, 1_000_000)
    shelf.append([line(number) for number in range(1, 11)])
    found, place = shelf.newest("shop", Wanted(), 3)
    assert numbers(found) == [8, 9, 10]
    shelf.append([line(11)])
    found, place = shelf.after("shop", place, Wanted())
    assert numbers(found) == [11]
    assert shelf.after("shop", place, Wanted())[0] == []


def test_the_oldest_is_deleted_and_followers_go_on(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, 65_536)
    _, place = shelf.newest("shop", Wanted(), 0)
    seen = list[int]()
    for number in range(1, 2001):
        shelf.append([line(number, text="x" * 100)])
        found, place = shelf.after("shop", place, Wanted())
        seen += numbers(found)
    assert seen == list(range(1, 2001))
    assert sum(path.stat().st_size for path in (tmp_path / "shop").iterdir()) < 2 * 65_536
    kept, _ = shelf.newest("shop", Wanted(), 5000)
    assert numbers(kept) == list(range(kept[0].number, 2001))


def test_a_process_that_ended_before_its_index_was_written_makes_nothing_double(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, 1_000_000)
    shelf.append([line(1)])
    before = (tmp_path / "shop" / INDEX).read_bytes()
    shelf.append([line(2)])
    (tmp_path / "shop" / INDEX).write_bytes(before)
    with (tmp_path / "shop" / "1").open("ab") as file:
        file.write(b'{"half')
    assert shelf.append([line(2), line(3)]) == 1
    assert numbers(shelf.newest("shop", Wanted(), 10)[0]) == [1, 2, 3]
