"""Following the log without a lock: in order, once, and no further than what is durable."""

import shutil
from pathlib import Path

import pytest

from rota.errors import DamagedError
from rota.tlog import segments
from rota.tlog.disk import LocalDisk
from rota.tlog.following import Stretch, durable_end, follow
from rota.tlog.frames import START
from rota.tlog.records import Records, Rules
from rota.tlog.turn import FILE


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    return LocalDisk(tmp_path / "tlog")


def writer(disk: LocalDisk, segment: int = 1 << 20) -> Records:
    return Records(disk, lambda: 0, 0, Rules(segment=segment))


def after(disk: LocalDisk, last: Stretch, most: int = 100) -> Stretch:
    return follow(disk, last.position, last.root, most)


NOTHING = Stretch((), START, None)


def test_a_log_that_is_not_there_yet_has_nothing(disk: LocalDisk) -> None:
    assert durable_end(disk) is None
    assert after(disk, NOTHING) == NOTHING


def test_every_entry_comes_once_with_its_index(disk: LocalDisk) -> None:
    records = writer(disk)
    records.append([b"a", b"b"])
    first = after(disk, NOTHING)
    assert first.entries == ((0, b"a"), (1, b"b"))
    records.append([b"c"])
    second = after(disk, first)
    assert (second.entries, second.more) == (((2, b"c"),), False)
    assert after(disk, second) == Stretch((), second.position, second.root)


def test_it_goes_on_behind_the_end_of_a_record_file(disk: LocalDisk) -> None:
    records, last, found = writer(disk, segment=400), NOTHING, list[bytes]()
    for number in range(30):
        records.append([b"entry %d" % number])
        last = after(disk, last)
        found += [entry for _, entry in last.entries]
        assert after(disk, last).entries == ()
    assert len(disk.names(segments.DIRECTORY)) > 2
    assert found == [b"entry %d" % number for number in range(30)]
    parts, last = list[tuple[int, bytes]](), Stretch((), START, None, more=True)
    while last.more:
        last = after(disk, last, most=7)
        parts += last.entries
    assert parts == list(enumerate(found))


def test_what_nobody_saw_on_the_disk_waits(disk: LocalDisk) -> None:
    records = writer(disk)
    records.append([b"a"])
    mark = (disk.root / FILE).read_bytes()
    records.append([b"b"])
    (disk.root / FILE).write_bytes(mark)
    seen = after(disk, NOTHING)
    assert seen.entries == ((0, b"a"),)
    (disk.root / FILE).write_bytes(mark[:-1])  # as a writer that is just noting it
    assert after(disk, seen).entries == ()
    writer(disk).append([b"c"])
    assert after(disk, seen).entries == ((1, b"b"), (2, b"c"))


def test_a_mark_that_a_crash_set_back_is_no_alarm(disk: LocalDisk) -> None:
    writer(disk).append([b"a"])
    mark = (disk.root / FILE).read_bytes()
    writer(disk).append([b"b"])
    seen = after(disk, NOTHING)
    (disk.root / FILE).write_bytes(mark)
    assert after(disk, seen) == Stretch((), seen.position, seen.root)
    writer(disk).append([b"c"])
    assert after(disk, seen).entries == ((2, b"c"),)


def test_another_log_in_its_place_is_refused(disk: LocalDisk, tmp_path: Path) -> None:
    writer(disk).append([b"a"])
    shutil.copytree(disk.root, tmp_path / "older")
    writer(disk).append([b"b"])
    seen = after(disk, NOTHING)
    shutil.rmtree(disk.root)
    shutil.copytree(tmp_path / "older", disk.root)
    with pytest.raises(DamagedError, match="older copy"):
        after(disk, seen)
    for entry in (b"x", b"y", b"z"):
        writer(disk).append([entry])
    with pytest.raises(DamagedError):
        after(disk, seen)
