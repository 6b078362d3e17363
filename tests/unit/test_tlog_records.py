"""The record files: appending, catching up, torn and damaged ends, old copies, and who may change what."""

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from rota.errors import BusyError, DamagedError, FencedError, MalformedError, TlogError
from rota.tlog import segments
from rota.tlog.disk import LocalDisk
from rota.tlog.frames import (
    ENTRIES,
    HEAD_SIZE,
    START,
    Chain,
    Head,
    Position,
    frames_of,
    last_frame,
    make_frame,
    read_frame,
)
from rota.tlog.merkle import EMPTY_ROOT, Frontier, leaf_hash
from rota.tlog.records import Records, Rules
from rota.tlog.torn import refuse_if_damaged
from rota.tlog.turn import FILE, Turn, take_turn

FIRST = segments.path_of(0)


def no_floor() -> int:
    return 0


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    return LocalDisk(tmp_path / "tlog")


def records(
    disk: LocalDisk, *, generation: int = 0, floor: Callable[[], int] = no_floor, **rules: int
) -> Records:
    return Records(disk, floor, generation, Rules(wait=0.2, **rules))  # type: ignore[arg-type]


def stored(disk: LocalDisk) -> list[bytes]:
    """Return every entry that the files hold, their chain checked."""
    chain = Chain(START, EMPTY_ROOT)
    return [
        entry
        for _, frame in segments.read_on(disk, chain, segments.look(disk).position)
        for entry in frame.entries
    ]


def root_of(entries: list[bytes]) -> bytes:
    frontier = Frontier()
    for entry in entries:
        frontier.add(leaf_hash(entry))
    return frontier.root()


def test_writers_take_turns_and_each_catches_up_by_the_files_end(disk: LocalDisk) -> None:
    one, other = records(disk), records(disk)
    entries: list[bytes] = []
    for number in range(30):
        batch = [b"%d-%d" % (number, at) for at in range(number % 4 + 1)]
        logged = (one if number % 2 else other).append(batch)
        assert [each.index for each in logged] == list(range(len(entries), len(entries) + len(batch)))
        assert [each.leaf for each in logged] == list(map(leaf_hash, batch))
        entries += batch
    assert stored(disk) == entries
    tail = segments.look(disk)
    assert (tail.position.size, tail.frontier.root()) == (len(entries), root_of(entries))


def test_an_empty_log_and_one_entry(disk: LocalDisk) -> None:
    assert segments.look(disk).position == START
    assert segments.look(disk).frontier.root() == EMPTY_ROOT
    assert stored(disk) == []
    assert records(disk).settle().position == START
    assert records(disk).append([b""])[0].index == 0
    assert stored(disk) == [b""]


def test_files_are_sealed_and_followed_by_others(disk: LocalDisk) -> None:
    one, other = records(disk, segment=3000), records(disk, segment=3000)
    entries = [b"%d" % number * 100 for number in range(60)]
    for number, entry in enumerate(entries):
        assert (one if number % 3 else other).append([entry])[0].index == number
    assert len(disk.names(segments.DIRECTORY)) > 3
    assert stored(disk) == entries
    late = records(disk, segment=3000)
    assert late.append([b"late"])[0].index == 60
    assert one.append([b"on"])[0].index == 61


def test_a_file_that_was_sealed_and_not_yet_followed(disk: LocalDisk) -> None:
    one = records(disk, segment=600)
    one.append([b"x" * 600])
    one.append([b"y"])
    newest = disk.names(segments.DIRECTORY)[-1]
    (disk.root / segments.DIRECTORY / newest).unlink()  # the crash came between the seal and the file
    (disk.root / FILE).unlink()
    assert segments.look(disk).position.size == 1
    assert records(disk, segment=600).append([b"z"])[0].index == 1


def test_a_missing_file_between_others_is_damage(disk: LocalDisk) -> None:
    one = records(disk, segment=300)
    for number in range(4):
        one.append([b"%d" % number * 300])
    names = disk.names(segments.DIRECTORY)
    assert len(names) > 3
    (disk.root / segments.DIRECTORY / names[1]).unlink()
    with pytest.raises((DamagedError, FileNotFoundError)):
        stored(disk)


def frame_after(disk: LocalDisk, entries: list[bytes], **changed: object) -> bytes:
    tail = segments.look(disk)
    frontier = tail.frontier.copy()
    for entry in entries:
        frontier.add(leaf_hash(entry))
    head = Head(
        kind=ENTRIES,
        writer=bytes(16),
        generation=0,
        sequence=1,
        first=tail.position.size,
        count=len(entries),
        body=0,
        previous=tail.previous,
        root_before=tail.frontier.root(),
    )
    values = {**head.__dict__, **changed}
    return make_frame(Head(**values), entries, frontier.hashes)


def begun(disk: LocalDisk) -> tuple[Path, bytes, bytes]:
    """Return the record file of a log of five entries, its bytes, and the frame that would follow."""
    records(disk).append([b"a", b"b"])
    records(disk).append([b"c", b"d", b"e"])
    path = disk.root / FIRST
    return path, path.read_bytes(), frame_after(disk, [b"torn one", b"torn two"])


def test_a_torn_end_of_every_length_is_cut_and_kept_aside(disk: LocalDisk) -> None:
    path, before, frame = begun(disk)
    for length in range(1, len(frame)):
        path.write_bytes(before + frame[:length])
        assert segments.look(disk).position.size == 5
        assert path.stat().st_size == len(before) + length, "a reader changed the file"
        assert records(disk).append([b"next"])[0].index == 5
        kept = max((disk.root / "torn").iterdir(), key=lambda each: each.stat().st_mtime_ns)
        assert kept.read_bytes() == frame[:length]
        assert stored(disk) == [b"a", b"b", b"c", b"d", b"e", b"next"]
        shutil.rmtree(disk.root / "torn")
        (disk.root / FILE).unlink()


def test_a_whole_frame_that_nobody_answered_is_taken_over(disk: LocalDisk) -> None:
    path, before, frame = begun(disk)
    path.write_bytes(before + frame)
    assert records(disk).append([b"next"])[0].index == 7
    assert stored(disk)[5:] == [b"torn one", b"torn two", b"next"]


@pytest.mark.parametrize("zeros", [1, 7, 511, 512, 513, 5000])
def test_zeros_at_the_end_are_cut(disk: LocalDisk, zeros: int) -> None:
    path, before, frame = begun(disk)
    for torn in (bytes(zeros), frame[:50] + bytes(zeros + 600)):
        path.write_bytes(before + torn)
        assert records(disk).append([b"next"])[0].index == 5
        path.write_bytes(before)
        (disk.root / FILE).unlink()


def test_what_was_seen_on_the_disk_is_not_cut_however_torn_it_looks(disk: LocalDisk) -> None:
    path, before, _ = begun(disk)
    first = read_frame(before).head.total
    for lost in (
        before[:-1],
        before[: first + 50],
        before[:first] + bytes(len(before) - first),
        before[:first],
    ):
        path.write_bytes(lost)
        with pytest.raises(DamagedError, match="was durable up to"):
            records(disk).append([b"next"])
        assert path.read_bytes() == lost


def test_a_flipped_bit_anywhere_is_damage_and_nothing_is_cut(disk: LocalDisk) -> None:
    path, before, frame = begun(disk)
    whole = before + frame
    for at in range(len(whole)):
        for bit in (0x01, 0x80):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            flipped = path.read_bytes()
            # A flip in an older frame does not show at the end; whoever reads it all finds it.
            if at >= len(before):
                with pytest.raises(TlogError):
                    records(disk).append([b"next"])
            with pytest.raises(TlogError):
                verify_all(disk)
            assert path.read_bytes() == flipped


def verify_all(disk: LocalDisk) -> None:
    chain = Chain(START, EMPTY_ROOT)
    entries: list[bytes] = []
    for _, frame in segments.read_on(disk, chain, Position(0, (disk.root / FIRST).stat().st_size, 0)):
        entries += frame.entries
        if root_of(entries) != frame.root:
            raise DamagedError("root")


def test_frames_that_do_not_follow_are_damage(disk: LocalDisk) -> None:
    path, before, _ = begun(disk)
    duplicate = before[read_frame(before).head.total :]
    for strange in (
        duplicate,
        frame_after(disk, [b"x"], first=8),
        frame_after(disk, [b"x"], first=4),
        frame_after(disk, [b"x"], previous=0),
    ):
        path.write_bytes(before + strange)
        with pytest.raises(TlogError):
            records(disk).append([b"next"])
        assert path.read_bytes() == before + strange
        path.write_bytes(before)
    path.write_bytes(before + frame_after(disk, [b"x"], root_before=bytes(32)))
    with pytest.raises(MalformedError, match="two writers"):
        stored(disk)


def test_damage_before_a_sound_frame_is_not_taken_for_a_torn_end(disk: LocalDisk) -> None:
    path, before, frame = begun(disk)
    path.write_bytes(before + bytes(600) + frame)
    with pytest.raises(TlogError):
        records(disk).append([b"next"])
    with pytest.raises(DamagedError, match="sound frame follows"):
        refuse_if_damaged(bytes(600) + frame, 0, "x")


def test_nothing_is_cut_or_appended_below_what_was_signed(disk: LocalDisk) -> None:
    path, before, frame = begun(disk)
    path.write_bytes(before + frame[:40])
    with pytest.raises(DamagedError, match="7 are signed"):
        records(disk, floor=lambda: 7).append([b"next"])
    assert path.read_bytes() == before + frame[:40]
    path.write_bytes(before)
    with pytest.raises(DamagedError, match="older copy"):
        records(disk, floor=lambda: 7).append([b"next"])
    assert records(disk, floor=lambda: 5).append([b"next"])[0].index == 5


def test_an_older_copy_in_place_of_the_directory_is_refused(disk: LocalDisk, tmp_path: Path) -> None:
    writer = records(disk)
    writer.append([b"a"])
    shutil.copytree(disk.root, tmp_path / "copy")
    writer.append([b"b"])
    shutil.rmtree(disk.root)
    shutil.copytree(tmp_path / "copy", disk.root)
    with pytest.raises(DamagedError, match="older copy"):
        writer.append([b"c"])
    assert stored(disk) == [b"a"]


def test_a_changed_file_of_the_same_length_is_noticed(disk: LocalDisk) -> None:
    writer = records(disk)
    writer.append([b"a", b"b"])
    path = disk.root / FIRST
    shutil.copytree(disk.root, disk.root.parent / "other")
    other = LocalDisk(disk.root.parent / "other")
    (other.root / FIRST).unlink()
    (other.root / FILE).unlink()
    records(other).append([b"x", b"y"])
    shutil.copy(other.root / FIRST, path)
    with path.open("ab") as file:
        file.write(b"RTL1")
    with pytest.raises(DamagedError, match="has changed"):
        writer.append([b"c"])


def test_a_process_of_an_older_generation_is_fenced(disk: LocalDisk) -> None:
    records(disk, generation=1).append([b"a"])
    old = records(disk, generation=1)
    records(disk, generation=2).append([b"b"])
    with pytest.raises(FencedError, match="generation 2"):
        old.append([b"c"])
    assert stored(disk) == [b"a", b"b"]


def test_an_entry_that_stands_already_is_not_appended_again(disk: LocalDisk) -> None:
    one, other = records(disk, segment=400), records(disk, segment=400)
    one.append([b"a" * 100])
    since = segments.look(disk).position
    assert [each.index for each in one.append([b"x", b"y"], since)] == [1, 2]
    one.append([b"z" * 100])
    assert [each.index for each in other.append([b"y", b"new", b"x", b"new"], since)] == [2, 4, 1, 4]
    assert [each.index for each in other.append([b"a" * 100], since)] == [5], (
        "what stood before does not count"
    )
    assert stored(disk) == [b"a" * 100, b"x", b"y", b"z" * 100, b"new", b"a" * 100]


def test_what_nobody_saw_on_the_disk_is_written_again_before_it_is_built_on(
    disk: LocalDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before, frame = begun(disk)
    path.write_bytes(before + frame)  # whole, and left by a writer that was killed before its sync
    written: list[tuple[int, int]] = []
    pwrite = os.pwrite

    def noted(fd: int, data: bytes, offset: int) -> int:
        if str(Path(f"/proc/self/fd/{fd}").readlink()).endswith(FIRST):
            written.append((offset, len(data)))
        return pwrite(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", noted)
    writer = records(disk)
    writer.append([b"next"])
    assert written[0] == (len(before), len(frame))
    del written[:]
    writer.append([b"more"])
    records(disk).append([b"others"])
    assert len(written) == 2, "what is known to be durable is not written again"


def test_a_writer_waits_for_its_turn_and_gives_up_in_time(disk: LocalDisk) -> None:
    writer = records(disk)
    writer.append([b"a"])
    for path in (FILE, FIRST):
        with closing(disk.open(path, write=True)) as handle:
            assert handle.try_lock()
            with pytest.raises(BusyError, match="another writer"):
                writer.append([b"b"])
    assert writer.append([b"b"])[0].index == 1


class Clock:
    """Seconds that tests move; each look takes `step`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.step = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def test_a_writer_that_was_frozen_after_it_took_its_turn_writes_nothing(disk: LocalDisk) -> None:
    clock = Clock()
    writer = Records(disk, no_floor, 0, Rules(clock=clock))
    writer.append([b"a"])
    before = (disk.root / FIRST).read_bytes()
    clock.step = 6.0
    with pytest.raises(BusyError, match="took longer"):
        writer.append([b"b"])
    assert (disk.root / FIRST).read_bytes() == before


def test_a_writer_whose_sync_took_too_long_looks_again_before_it_answers(
    disk: LocalDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    writer = Records(disk, no_floor, 0, Rules(clock=clock))
    writer.append([b"a"])
    sync, syncs = os.fdatasync, list[int]()

    def slow(fd: int) -> None:
        sync(fd)
        if not syncs:
            clock.now += 30
        syncs.append(fd)

    monkeypatch.setattr(os, "fdatasync", slow)
    assert writer.append([b"b"])[0].index == 1
    assert stored(disk) == [b"a", b"b"]

    def slower(fd: int) -> None:  # and meanwhile another writer took it for torn, and cut it
        sync(fd)
        monkeypatch.setattr(os, "fdatasync", sync)
        clock.now += 30
        monkeypatch.setattr(Turn, "close", cut_then_close)

    close = Turn.close

    def cut_then_close(turn: Turn) -> None:
        monkeypatch.setattr(Turn, "close", close)
        close(turn)
        os.truncate(disk.root / FIRST, writer.tail.previous)
        (disk.root / FILE).unlink()

    monkeypatch.setattr(os, "fdatasync", slower)
    with pytest.raises(DamagedError):
        writer.append([b"c"])


def test_the_turn_knows_what_is_durable_and_doubts_a_torn_note(disk: LocalDisk) -> None:
    with closing(take_turn(disk)) as turn:
        assert turn.durable() is None
        turn.note_durable(7, 99)
        assert turn.durable() == (7, 99)
    path = disk.root / FILE
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with closing(take_turn(disk)) as turn:
        assert turn.durable() is None


def test_a_frame_is_read_as_it_was_written_and_not_beyond_its_bounds(disk: LocalDisk) -> None:
    data = frame_after(disk, [b"one", b"", b"x" * 65_535])
    frame = read_frame(b"before" + data + b"after", 6)
    assert frame == last_frame(b"before" + data)
    assert (frame.entries, frame.head.total) == ([b"one", b"", b"x" * 65_535], len(data))
    assert frame.root == root_of(frame.entries)
    assert [at for at, _ in frames_of(data + data[:-1])] == [0]
    for short in (b"", data[: HEAD_SIZE - 1], data[:-1]):
        with pytest.raises(MalformedError):
            read_frame(short)
        with pytest.raises(MalformedError):
            last_frame(short)


@pytest.mark.parametrize("text", ["", "1:2", "1:2:3:4", "1:2:x", "01:2:3", "-1:2:3", "1:2:+3"])
def test_a_position_is_written_and_read(text: str) -> None:
    assert Position.parse(str(Position(12, 34, 56))) == Position(12, 34, 56)
    with pytest.raises(MalformedError):
        Position.parse(text)
