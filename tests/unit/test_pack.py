"""Packing: the same bytes whoever packs and whenever; what leaves the directory is refused."""

import io
import os
import socket
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.archive.extract import Bounds, extract
from rota.archive.pack import pack, pack_source
from rota.errors import InputError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "app"
    (top / "lib" / "deep").mkdir(parents=True)
    (top / "app.py").write_text("print(1)\n")
    (top / "run").write_text("#!/bin/sh\n")
    (top / "run").chmod(0o4777)
    (top / "lib" / "deep" / "ä.txt").write_text("x" * 2000)
    (top / "link").symlink_to("lib/deep")
    (top / "lib" / "up").symlink_to("../app.py")
    return top


def packed(tree: Path) -> bytes:
    file = io.BytesIO()
    pack_source(tree, file)
    return file.getvalue()


def names(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return archive.getnames()


def unpacked(data: bytes, place: Path) -> Path:
    place.mkdir()
    directory = os.open(place, os.O_RDONLY)
    try:
        extract(io.BytesIO(data), directory, Bounds(len(data)))
    finally:
        os.close(directory)
    return place


def test_it_is_the_same_bytes_whatever_the_times_owners_and_order(tree: Path, tmp_path: Path) -> None:
    first = packed(tree)
    for path in tree.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    (tree / "app.py").chmod(0o600)
    again = unpacked(first, tmp_path / "again")
    assert packed(tree) == packed(again) == first


def test_what_comes_out_is_what_went_in(tree: Path, tmp_path: Path) -> None:
    there = unpacked(packed(tree), tmp_path / "there")
    assert (there / "lib" / "deep" / "ä.txt").read_text() == "x" * 2000
    assert (there / "run").stat().st_mode & 0o7777 == 0o755
    assert (there / "app.py").stat().st_mode & 0o7777 == 0o644
    assert (there / "link").readlink() == Path("lib/deep")
    assert (there / "lib" / "up").readlink() == Path("../app.py")


def test_what_is_ignored_stays_at_home(tree: Path) -> None:
    (tree / ".git").mkdir()
    (tree / ".git" / "config").write_text("x")
    (tree / "node_modules").mkdir()
    (tree / "node_modules" / "x.js").write_text("x")
    (tree / "secret.key").write_text("x")
    (tree / "keep.log").write_text("x")
    (tree / ".gitignore").write_text("*.log\n*.key\n")
    (tree / ".rotaignore").write_text("# back again\n!keep.log\nlib/\n")
    assert names(packed(tree)) == [".gitignore", ".rotaignore", "app.py", "keep.log", "link", "run"]
    (tree / ".rotaignore").write_text("!node_modules/\n")
    assert "node_modules/x.js" in names(packed(tree))


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "../../x", ".", "lib/../../x"])
def test_a_link_that_leaves_is_refused(tree: Path, target: str) -> None:
    (tree / "bad").symlink_to(target)
    with pytest.raises(InputError, match="bad is a link that leads out"):
        packed(tree)


def test_a_link_to_inside_is_made_relative_and_plain(tree: Path) -> None:
    (tree / "lib" / "abs").symlink_to(tree / "app.py")
    (tree / "lib" / "twice").symlink_to("../link/ä.txt")
    with tarfile.open(fileobj=io.BytesIO(packed(tree))) as archive:
        assert archive.getmember("lib/abs").linkname == "../app.py"
        assert archive.getmember("lib/twice").linkname == "deep/ä.txt"


def test_what_no_archive_holds_is_refused_by_name(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    with pytest.raises(InputError, match="pipe is neither"):
        packed(tree)
    (tree / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tree / "s"))
        with pytest.raises(InputError, match="s is neither"):
            packed(tree)
    (tree / "s").unlink()
    (tree / "App.py").write_text("x")
    with pytest.raises(InputError, match="case alone"):
        packed(tree)
    (tree / "App.py").unlink()
    for name in (b"\xff", b"a\nb", b"\x1b[2J"):
        path = os.fsencode(tree) + b"/" + name
        os.close(os.open(path, os.O_CREAT))
        with pytest.raises(InputError, match="not UTF-8"):
            packed(tree)
        Path(os.fsdecode(path)).unlink()
    assert packed(tree)


def test_an_empty_directory_is_no_app(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="nothing to deploy"):
        packed(tmp_path)


@given(st.dictionaries(st.text("abcdé ._-", min_size=1, max_size=6), st.binary(max_size=1000), min_size=1))
@settings(max_examples=50, deadline=None)
def test_any_files_come_out_as_they_went_in(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    top = tmp_path_factory.mktemp("any")
    kept = {name: data for name, data in files.items() if name not in (".", "..")}
    for name, data in kept.items():
        (top / name).write_bytes(data)
    if not kept:
        return
    file = io.BytesIO()
    pack(top, file)
    there = unpacked(file.getvalue(), top.parent / f"{top.name}-there")
    assert {path.name: path.read_bytes() for path in there.iterdir()} == kept
