"""No archive, however it was made, touches anything but its own directory."""

import gzip
import io
import os
import resource
import stat
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.archive.extract import ArchiveError, Bounds, extract

Entry = tuple[str, bytes, bytes, str]  # name, kind, content, target of a link

OUTSIDE = "/tmp/rota-evil"  # noqa: S108 - what an archive would make


def packed(*entries: Entry, mode: int = 0o777, pad: bytes = b"") -> bytes:
    """Return a tar archive of the format pax; names and targets are taken as they are."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, content, link in entries:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname, info.mode = kind, len(content), link, mode
            info.uid, info.gid, info.uname, info.gname = 0, 0, "root", "root"
            archive.addfile(info, io.BytesIO(content))
    return target.getvalue() + pad


def file(name: str, content: bytes = b"x") -> Entry:
    return name, tarfile.REGTYPE, content, ""


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> Entry:
    return name, kind, b"", target


def directory(name: str) -> Entry:
    return name, tarfile.DIRTYPE, b"", ""


def unpack(data: bytes, into: Path, bounds: Bounds | None = None) -> None:
    descriptor = os.open(into, os.O_RDONLY | os.O_DIRECTORY)
    try:
        extract(io.BytesIO(data), descriptor, bounds or Bounds(1 << 20))
    finally:
        os.close(descriptor)


def digest(tree: Path, but: Path) -> str:
    """Return a hash of everything below a directory, its own tree apart."""
    whole = sha256()
    for path in sorted(tree.rglob("*")):
        if path != but and but not in path.parents:
            found = path.lstat()
            whole.update(f"{path} {found.st_mode} {found.st_uid} {found.st_size}".encode())
            whole.update(path.read_bytes() if path.is_file() and not path.is_symlink() else b"")
    return whole.hexdigest()


HOSTILE: dict[str, bytes] = {
    "parent": packed(file("../evil")),
    "parent inside": packed(directory("a"), file("a/../../evil")),
    "absolute": packed(file(OUTSIDE)),
    "dot": packed(file("./a")),
    "doubled slash": packed(file("a//b")),
    "empty name": packed(file("a/")).replace(b"a/", b"\0\0", 1),
    "link out": packed(link("a", "../outside")),
    "link absolute": packed(link("a", "/etc/passwd")),
    "link through a link": packed(directory("d"), link("d/here", "."), link("d/out", "here/../../outside")),
    "link climbs late": packed(directory("d"), link("d/out", "../d/../../outside")),
    "written through a link": packed(link("a", "b"), directory("b"), file("a/evil")),
    "link, then a directory": packed(link("a", "b"), directory("a"), file("a/evil")),
    "link, then a file": packed(link("a", "b"), file("a")),
    "file as a directory": packed(file("a"), file("a/b")),
    "hard link": packed(file("a"), link("b", "a", tarfile.LNKTYPE)),
    "hard link out": packed(link("b", "/etc/passwd", tarfile.LNKTYPE)),
    "device": packed(("a", tarfile.CHRTYPE, b"", "")),
    "block device": packed(("a", tarfile.BLKTYPE, b"", "")),
    "pipe": packed(("a", tarfile.FIFOTYPE, b"", "")),
    "contiguous": packed(("a", tarfile.CONTTYPE, b"", "")),
    "sparse": packed(("a", tarfile.GNUTYPE_SPARSE, b"", "")),
    "gnu long name": packed(("a", tarfile.GNUTYPE_LONGNAME, b"../evil\0", ""), file("b")),
    "twice": packed(file("a"), file("a")),
    "differs by case": packed(file("README"), file("readme")),
    "differs by case above": packed(file("A/x"), file("a/y")),
    "differs by case as letters fold": packed(file("straße"), file("STRASSE")),
    "new line": packed(file("a\nb")),
    "escape": packed(file("a\x1b[2Jb")),
    "turned around": packed(file("a\u202egnp.exe")),
    "long part": packed(file("a" * 256)),
    "long path": packed(file("/".join(["abc"] * 60 + ["d" * 200] * 20))),
    "deep": packed(file("/".join("a" * 65))),
    "too many files": packed(*(file(f"f{number}") for number in range(60))),
    "too many bytes": packed(file("a", bytes(600_000)), file("b", bytes(600_000))),
    "cut": packed(file("a", bytes(5000)))[:3000],
    "no end": packed(file("a"))[:1024],
    "something behind the end": packed(file("a"), pad=b"more"),
    "no tar": b"PK\x03\x04" + bytes(2000),
    "nothing": b"",
    "damaged header": packed(file("a")).replace(b"ustar\x0000", b"ustar\x0001"),
    "another format": packed(file("a")).replace(b"ustar\x0000", b"ustar  \x00"),
    "damaged compression": gzip.compress(packed(file("a", os.urandom(4000))))[:-200],
    "no compression": b"\x1f\x8b" + bytes(500),
}


def with_directory_content() -> bytes:
    data = bytearray(packed(directory("a"), file("b", bytes(512))))
    data[124:136] = b"00000001000\0"
    data[148:156] = b"%06o\0 " % (sum(data[:148]) + sum(data[156:512]) + 256)
    return bytes(data)


def with_pax(record: bytes) -> bytes:
    """Return an archive whose one file has an extended header with this record."""
    body = b"%d %s\n" % (len(record) + 1 + len(str(len(record) + 5)) + 1, record)
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, len(body)
    head = info.tobuf(tarfile.USTAR_FORMAT) + body + bytes(-len(body) % 512)
    return head + packed(file("a"))


HOSTILE |= {
    "directory with content": with_directory_content(),
    "pax path out": with_pax(b"path=../evil"),
    "pax path with a nul": with_pax(b"path=a\0b"),
    "pax size": with_pax(b"size=99999999999999999999"),
    "pax size negative": with_pax(b"size=-1"),
    "pax size large": with_pax(b"size=9999999999"),
    "pax sparse": with_pax(b"GNU.sparse.major=1"),
    "pax no utf-8": with_pax(b"path=\xff"),
    "pax malformed": with_pax(b"nothing"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_nothing_outside_changes(name: str, tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    tree.mkdir()
    outside.write_text("as it was")
    before = digest(tmp_path, tree)
    with pytest.raises(ArchiveError):
        unpack(HOSTILE[name], tree, Bounds(1 << 20, files=50))
    assert digest(tmp_path, tree) == before
    assert not Path(OUTSIDE).exists()
    for path in tree.rglob("*"):
        assert path.resolve().is_relative_to(tree)


def test_rights_and_owners_of_an_archive_mean_nothing_but_that_a_file_runs(tmp_path: Path) -> None:
    data = packed(file("run"), directory("d"), mode=0o7777)
    unpack(data, tmp_path)
    unpack(packed(file("plain"), mode=0o6044), tmp_path)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"run": 0o755, "d": 0o755, "plain": 0o644}
    assert {path.stat().st_uid for path in tmp_path.iterdir()} == {os.geteuid()}


def test_a_good_archive_is_unpacked_whole(tmp_path: Path) -> None:
    long = "/".join(["a" * 90] * 4 + ["ä ö.txt"])
    data = packed(
        file("b/c/d"), directory("b"), directory("e/"), link("b/l", "../e"), link("m", "b/c/d"), file(long)
    )
    for name, archive in (("plain", data), ("gzip", gzip.compress(data))):
        (tmp_path / name).mkdir()
        unpack(archive, tmp_path / name)
        tree = tmp_path / name
        assert (tree / "m").read_text() == "x"
        assert (tree / "b" / "l").resolve() == tree / "e"
        assert (tree / long).read_text() == "x"


def test_a_bomb_is_refused_in_little_time_and_memory(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb"
    data = gzip.compress(packed(file("a", bytes(50 << 20))))
    bomb.write_bytes(data)
    (tmp_path / "tree").mkdir()
    began = time.monotonic()
    with bomb.open("rb") as stream:
        done = subprocess.run(
            [sys.executable, "-m", "rota.archive.extract", str(len(data))],
            stdin=stream,
            cwd=tmp_path / "tree",
            env={"PYTHONPATH": str(Path(__file__).parents[2] / "app")},
            stderr=subprocess.PIPE,
            check=False,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20)),
        )
    print(f"refused after {time.monotonic() - began:.2f} s")
    assert (done.returncode, list((tmp_path / "tree").iterdir())) == (65, [])
    assert "bytes" in done.stderr
    assert time.monotonic() - began < 3


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_damaged_archive_is_refused_or_stays_inside(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    good = bytearray(packed(file("b/c", b"12345"), directory("e"), link("b/l", "../e"), file("ä" * 60)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(good) - 1))
        good[at] = data.draw(st.integers(0, 255))
        block = at - at % 512
        if data.draw(st.booleans()):  # with a checksum that fits again
            total = sum(good[block : block + 148]) + sum(good[block + 156 : block + 512]) + 256
            good[block + 148 : block + 156] = b"%06o\0 " % total
    top = tmp_path_factory.mktemp("damaged")
    tree = top / "tree"
    tree.mkdir()
    before = digest(top, tree)
    with suppress(ArchiveError):
        unpack(bytes(good), tree)
    assert digest(top, tree) == before
    assert all(path.resolve().is_relative_to(tree) for path in tree.rglob("*"))


def test_time_grows_no_faster_than_an_archive(tmp_path: Path) -> None:
    def takes(count: int) -> float:
        data = packed(*(file(f"d{number % 50}/f{number}") for number in range(count)))
        tree = tmp_path / str(count)
        tree.mkdir()
        began = time.process_time()
        unpack(data, tree)
        return time.process_time() - began

    takes(10)
    small = max(takes(2000), 0.2)
    assert takes(4000) < 3 * small
