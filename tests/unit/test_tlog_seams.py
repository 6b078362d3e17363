"""Group commit, the log for each role, values in slots, and where the log may lie."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from rota.errors import BusyError, ConfigurationError, DamagedError, TlogError
from rota.tlog import mounts
from rota.tlog.batches import MOST_WAITING, Batches
from rota.tlog.disk import LocalDisk
from rota.tlog.frames import MOST_ENTRIES, START
from rota.tlog.log import AppendingLog, ReadingLog, Tlog
from rota.tlog.mounts import Mount, check_mount, mount_of, problem
from rota.tlog.records import Logged, Records
from rota.tlog.slots import SLOT, Slots


class Writer:
    """Writes batches when it is let; fails when it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.go = asyncio.Event()
        self.error: BaseException | None = None
        self.size = 0

    async def __call__(self, entries: Sequence[bytes]) -> list[Logged]:
        self.batches.append(list(entries))
        await self.go.wait()
        if self.error:
            raise self.error
        found = [Logged(self.size + at, b"") for at in range(len(entries))]
        self.size += len(entries)
        return found


async def waiting(batches: Batches, count: int) -> list["asyncio.Task[Logged]"]:
    tasks = [asyncio.create_task(batches.add(b"%d" % number)) for number in range(count)]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def test_what_comes_while_a_batch_is_written_makes_up_the_next() -> None:
    writer = Writer()
    batches = Batches(writer)
    first = await waiting(batches, 1)
    rest = await waiting(batches, 64)
    writer.go.set()
    indices = [logged.index for logged in await asyncio.gather(*first, *rest)]
    assert indices == list(range(65))
    assert [len(batch) for batch in writer.batches] == [1, 64]


async def test_a_producer_that_goes_away_takes_only_its_own_entry_with_it() -> None:
    writer = Writer()
    batches = Batches(writer)
    first = await waiting(batches, 4)
    rest = await waiting(batches, 64)
    first[1].cancel()
    rest[10].cancel()
    await asyncio.sleep(0)
    writer.go.set()
    done = await asyncio.gather(*first, *rest, return_exceptions=True)
    assert sum(isinstance(each, Logged) for each in done) == 66
    assert [len(batch) for batch in writer.batches] == [4, 63]
    assert len({each.index for each in done if isinstance(each, Logged)}) == 66


@pytest.mark.parametrize("error", [TlogError("full"), RuntimeError("a fault of ours")])
async def test_a_batch_that_fails_fails_for_all_in_it_and_the_next_is_tried(
    error: Exception, recwarn: pytest.WarningsRecorder
) -> None:
    writer = Writer()
    batches = Batches(writer)
    tasks = await waiting(batches, 3)
    writer.error = error
    writer.go.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, TlogError) for each in done)
    writer.error = None
    assert (await batches.add(b"again")).index == 0
    assert not recwarn.list or isinstance(error, RuntimeError)


async def test_too_much_is_refused_at_once() -> None:
    writer = Writer()
    batches = Batches(writer)
    with pytest.raises(TlogError, match="65535"):
        await batches.add(bytes(65_536))
    tasks = await waiting(batches, MOST_ENTRIES)
    tasks += await waiting(batches, MOST_WAITING)
    refused = await waiting(batches, 1)
    with pytest.raises(BusyError, match="wait for the tlog"):
        await refused[0]
    writer.go.set()
    assert len(await asyncio.gather(*tasks)) == MOST_ENTRIES + MOST_WAITING
    assert max(map(len, writer.batches)) <= MOST_ENTRIES


async def test_closing_writes_what_waits_and_takes_no_more() -> None:
    writer = Writer()
    batches = Batches(writer)
    tasks = await waiting(batches, 3)
    closing = asyncio.create_task(batches.close())
    await asyncio.sleep(0)
    with pytest.raises(BusyError, match="stopping"):
        await batches.add(b"late")
    writer.go.set()
    await closing
    assert [task.result().index for task in tasks] == [0, 1, 2]


def opening(disk: LocalDisk) -> Callable[[], Awaitable[Records]]:
    async def open_records() -> Records:
        return Records(disk, lambda: 0)

    return open_records


async def test_both_logs_on_one_directory(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path / "tlog")
    appending: Tlog = AppendingLog(disk, opening(disk))
    reading: Tlog = ReadingLog(disk)
    assert (await reading.head()).position == START
    assert not disk.root.exists(), "a reader made something"
    found = await asyncio.gather(*(appending.append(b"%d" % number) for number in range(200)))
    assert sorted(each.index for each in found) == list(range(200))
    assert [each.index for each in await appending.append_once([b"7", b"new"], START)] == [
        found[7].index,
        200,
    ]
    assert (await reading.head()).position.size == (await appending.head()).position.size == 201
    for refused in (reading.append(b"x"), reading.append_once([b"x"], START)):
        with pytest.raises(TlogError, match="only reads"):
            await refused
    await appending.close()
    await reading.close()


async def test_what_cannot_be_read_is_an_error_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "records").write_text("no directory")
    for log in (ReadingLog(LocalDisk(tmp_path)),):
        with pytest.raises(TlogError, match="cannot be read"):
            await log.head()
    appending = AppendingLog(LocalDisk(tmp_path), opening(LocalDisk(tmp_path)))
    with pytest.raises(TlogError, match="nothing was done"):
        await appending.append(b"x")
    await appending.close()


def slots(root: Path) -> Slots:
    return Slots(LocalDisk(root), "state/value", lambda _: None)


def put(root: Path, value: bytes) -> None:
    with slots(root).changing() as change:
        change.replace(value)


def test_a_slot_gives_back_what_was_last_put(tmp_path: Path) -> None:
    assert slots(tmp_path).read() is None
    for value in (b"one", b"", b"x" * 60_000, b"two"):
        put(tmp_path, value)
        assert slots(tmp_path).read() == value
    with slots(tmp_path).changing() as change:
        assert change.value == b"two"
        with pytest.raises(ValueError, match="a slot holds"):
            change.replace(bytes(SLOT))
    assert slots(tmp_path).read() == b"two"


def test_a_write_that_is_cut_off_anywhere_leaves_the_value_before_it(tmp_path: Path) -> None:
    path = tmp_path / "state" / "value"
    put(tmp_path, b"one")
    put(tmp_path, b"two")
    before = path.read_bytes()
    put(tmp_path, b"three")
    after = path.read_bytes()
    changed = [at for at in range(len(after)) if before[at : at + 1] != after[at : at + 1]]
    for cut in range(changed[0], changed[-1] + 1):
        path.write_bytes(after[:cut] + before[cut:])
        assert slots(tmp_path).read() == b"two"
    path.write_bytes(after)
    assert slots(tmp_path).read() == b"three"


def test_the_very_first_write_may_be_cut_off_and_no_later_one(tmp_path: Path) -> None:
    path = tmp_path / "state" / "value"
    put(tmp_path, b"one")
    whole = path.read_bytes()
    for cut in range(44 + 3):
        path.write_bytes(whole[:cut])
        assert slots(tmp_path).read() is None
    path.write_bytes(whole[:SLOT])
    assert slots(tmp_path).read() == b"one"
    path.write_bytes(bytes(len(whole)))
    with pytest.raises(DamagedError):
        slots(tmp_path).read()


NFS = "36 1 0:30 / /srv/rota/tlog rw,relatime - nfs4 10.98.0.1:/srv {}"
ROOT = "21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw"


def on_nfs(options: str, kind: str = "nfs4") -> Mount:
    line = NFS.format(options).replace(" nfs4 ", f" {kind} ")
    return mount_of(Path("/srv/rota/tlog/records"), f"{ROOT}\n{line}\n")


def test_the_mount_that_carries_a_path_is_found() -> None:
    text = f"{ROOT}\n22 21 8:2 / /srv rw - xfs /dev/sdb rw\nodd line\n"
    text += "23 21 8:3 / /srv/a\\040b rw - tmpfs none rw"
    assert mount_of(Path("/srv/x"), text).kind == "xfs"
    assert mount_of(Path("/srvx"), text).kind == "ext4"
    assert mount_of(Path("/srv/a b/c"), text).kind == "tmpfs"
    assert mount_of(Path("/srv"), text + "\n24 21 8:4 / /srv rw - btrfs /dev/sdc rw").kind == "btrfs"


def test_good_places() -> None:
    assert problem(mount_of(Path("/srv"), ROOT), "") is None
    good = on_nfs("rw,vers=4.2,hard,proto=tcp,local_lock=none,lookupcache=positive")
    assert good.shared
    assert problem(good, "N\n") is None


@pytest.mark.parametrize(
    ("mount", "recover", "said"),
    [
        (on_nfs("vers=4.2,local_lock=all"), "N", "local_lock=all"),
        (on_nfs("vers=4.2,local_lock=flock"), "N", "local_lock=flock"),
        (on_nfs("vers=4.2,nolock"), "N", "nolock"),
        (on_nfs("vers=4.2,nocto"), "N", "nocto"),
        (on_nfs("vers=4.2,soft"), "N", "soft"),
        (on_nfs("vers=3", "nfs"), "N", "old version"),
        (on_nfs("vers=3"), "N", "old version"),
        (on_nfs("vers=4.2"), "Y\n", "recover_lost_locks"),
        (on_nfs("", "fuse.sshfs"), "", "fuse.sshfs"),
        (on_nfs("", "9p"), "", "9p"),
    ],
)
def test_bad_places(mount: Mount, recover: str, said: str) -> None:
    assert said in str(problem(mount, recover))


def test_a_bad_place_stops_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not check_mount(tmp_path).shared
    table = tmp_path / "mountinfo"
    table.write_text(f"{ROOT}\n1 1 0:1 / {tmp_path} rw - nfs4 h:/ vers=4.2,nocto\n")
    monkeypatch.setattr(mounts, "MOUNTS", table)
    with pytest.raises(ConfigurationError, match=r"tlog\.directory: .* nocto"):
        check_mount(tmp_path / "tlog")
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)
    with pytest.raises(ConfigurationError):
        check_mount(link / "tlog")
