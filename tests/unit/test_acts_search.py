"""The log as a list: newest first, searched, in bounded work, what is not signed yet included."""

from pathlib import Path

import pytest

from rota.acts import search
from rota.acts.act import Act
from rota.acts.search import Acts, Wanted
from rota.tlog.disk import LocalDisk
from rota.tlog.exporter import Exporter
from rota.tlog.keys import signer
from rota.tlog.publication import Publication
from rota.tlog.recent import recent
from rota.tlog.records import Records, Rules
from rota.tlog.signing import nothing_signed, sign_tree
from rota.tlog.view import View

ANY = Wanted()
ODD_5 = [number for number in range(619, -1, -1) if number % 2 and str(number)[0] == "5"]
KEY = signer("hub.example/tlog", b"k" * 32)


def act(number: int) -> bytes:
    kind = "token.create" if number % 100 == 0 else "backup.make"
    return bytes(Act(kind=kind, actor=f"account:{'Ada' if number % 2 else 'bob'}", subject=f"thing {number}"))


def publish(directory: Path) -> int:
    """Sign and publish what is there, as the checkpointer does; return the size."""
    exporter = Exporter(directory, 0)
    exporter.begin(nothing_signed(KEY.verifier.name))
    exporter.catch_up()
    signed = sign_tree(KEY, (0, 1), exporter.size, exporter.root(), exporter.position)
    exporter.publication.publish(signed.note.encode())
    return exporter.size


@pytest.fixture
def acts(tmp_path: Path) -> Acts:
    """Give a log with 600 signed acts and 20 that are not."""
    disk = LocalDisk(tmp_path)
    records = Records(disk, lambda: 0)
    for start in range(0, 600, 40):
        records.append([act(number) for number in range(start, start + 40)])
    assert publish(tmp_path) == 600
    for number in range(600, 620):
        records.append([act(number)])
    return Acts(disk, View(Publication(tmp_path)))


def indices(acts: Acts, wanted: Wanted = ANY, before: int | None = None, rows: int = 50) -> list[int]:
    return [found.index for found in acts.search(wanted, before, rows).found]


def test_the_newest_come_first_and_what_is_not_signed_says_so(acts: Acts) -> None:
    page = acts.search(Wanted())
    assert [found.index for found in page.found] == list(range(619, 569, -1))
    assert [found.signed for found in page.found] == [False] * 20 + [True] * 30
    assert (page.size, page.before) == (600, 570)
    assert page.found[0].act is not None
    assert page.found[0].act.subject == "thing 619"


def test_every_page_follows_the_one_before_it_to_the_beginning(acts: Acts) -> None:
    seen, before = list[int](), None
    for _ in range(100):
        page = acts.search(Wanted(), before)
        seen += [found.index for found in page.found]
        before = page.before
        if before is None:
            break
    assert seen == list(range(619, -1, -1))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(kind="token."), [600, 500, 400, 300, 200, 100, 0]),
        (Wanted(kind="oken"), []),
        (
            Wanted(actor="ada", text="THING 5"),
            [number for number in range(619, -1, -1) if number % 2 and str(number)[0] == "5"],
        ),
        (Wanted(text="thing 61"), [*range(619, 609, -1), 61]),
        (Wanted(text="no such"), []),
    ],
)
def test_a_search_by_kind_actor_and_text(acts: Acts, wanted: Wanted, expected: list[int]) -> None:
    assert indices(acts, wanted, rows=600) == expected


def test_a_search_reads_a_bounded_number_of_entries_and_says_where_to_go_on(
    acts: Acts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "BUNDLES", 1)
    page = acts.search(Wanted(text="thing 300"))
    assert (page.found, page.before) == ([], 512)
    page = acts.search(Wanted(text="thing 300"), page.before)
    assert ([found.index for found in page.found], page.before) == ([300], 256)


def test_an_index_beyond_the_log_begins_at_its_end(acts: Acts) -> None:
    assert indices(acts, before=10**12)[0] == 599
    assert indices(acts, before=0) == []
    assert indices(acts, before=-5) == []


def test_what_is_no_act_is_found_by_its_text(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    Records(disk, lambda: 0).append([b"\xff<b>odd</b>"])
    acts = Acts(disk, View(Publication(tmp_path)))
    (found,) = acts.search(Wanted(text="odd")).found
    assert (found.act, found.at, found.signed) == (None, None, False)
    assert acts.search(Wanted(kind="a")).found == []


def test_an_empty_log_and_the_beginning_of_a_new_record_file(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    assert Acts(disk, View(Publication(tmp_path))).search(Wanted()).found == []
    records = Records(disk, lambda: 0, 0, Rules(segment=1))
    records.append([act(0)])
    records.append([act(1), act(2)])
    assert [index for index, _ in recent(disk, 0, 10)] == [2, 1]
    assert recent(disk, 3, 10) == []
    assert [index for index, _ in recent(disk, 0, 1)] == [2]
