"""The image of the emulated machines: a kernel, a disk that is only read, and what the kernel starts first.

The first processes are Python, in the initial file system (``vm_first.py``) and on the disk
(``vm_agent.py``). Both are put in when a machine is made, so that the image need not know them.
"""

import gzip
import lzma
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lab import images, recipe
from lab.commands import run
from lab.places import Places

KERNEL, DISK, INITIAL = "vmlinuz", "root.img", "initial.cpio.gz"
_DISK_SIZE = 1 << 30  # bytes; what is not used takes no space
# All of its standard library that Python reads before it runs a script: the rest is in the program.
_LIBRARY = ("os.py", "encodings/__init__.py", "encodings/aliases.py", "encodings/utf_8.py")


class Entry(NamedTuple):
    """A file of an initial file system: a directory when its mode says so."""

    name: str
    mode: int
    content: bytes = b""


def path(places: Places) -> Path:
    """Return where the image is, or would be."""
    return places.images / recipe.machine_key(os.uname().machine)


def ensure(places: Places) -> Path:
    """Return the image, building it if it is not there; one to three minutes then."""
    return images.obtain(places, path(places), "the emulated machines", _build)


def _build(directory: Path, lock: int) -> str:
    tree, suite = directory / "tree", recipe.MACHINE_SUITE
    directory.mkdir()
    lines = images.sources(images.machine_sources(), suite)
    run(images.bootstrap_argv(suite, tree, lines, recipe.MACHINE_INSTALLED), holding=[lock])
    (kernel,) = (tree / "boot").glob("vmlinuz-*")
    kernel.rename(directory / KERNEL)
    (directory / INITIAL).write_bytes(gzip.compress(archive(list(_initial(tree))), 6))
    for place in ("boot", "var/lib/apt/lists", "var/cache/apt"):
        shutil.rmtree(tree / place)
        (tree / place).mkdir()
    (tree / "etc/fstab").write_text("")
    disk = directory / DISK
    with disk.open("wb") as stream:
        stream.truncate(_DISK_SIZE)
    run(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", str(tree), str(disk)])
    shutil.rmtree(tree)
    return f"with kernel {kernel.name.removeprefix('vmlinuz-')}"


def _initial(tree: Path) -> Iterator[Entry]:
    """Give what the kernel's first process needs: Python, busybox and a few modules."""
    python = (tree / "usr/bin/python3").resolve().relative_to(tree.resolve())
    library = Path("usr/lib") / python.name
    listed = run(["chroot", str(tree), "ldd", f"/{python}"]).stdout.split()
    files = [word.lstrip("/") for word in listed if word.startswith("/")]
    files += [str(library / name) for name in _LIBRARY]
    for name in files:
        yield Entry(name, stat.S_IFREG | 0o755, (tree / name).read_bytes())
    yield Entry("usr/bin/python3", stat.S_IFREG | 0o755, (tree / python).read_bytes())
    yield Entry("bin/busybox", stat.S_IFREG | 0o755, (tree / "usr/bin/busybox").read_bytes())
    for number, name in enumerate(recipe.MACHINE_MODULES):
        (packed,) = (tree / "usr/lib/modules").glob(f"*/kernel/**/{name}.ko.xz")
        yield Entry(f"modules/{number}-{name}.ko", stat.S_IFREG | 0o644, lzma.decompress(packed.read_bytes()))
    for name in (str(library / "lib-dynload"), "proc", "sys", "dev", "lower", "write", "root"):
        yield Entry(name, stat.S_IFDIR | 0o755)


def archive(entries: list[Entry]) -> bytes:
    """Return an archive as the kernel unpacks it at boot (cpio, format newc). Pure.

    The directories above a file are put in front of it. The kernel takes several archives, one after another.
    """
    whole: dict[str, Entry] = {}
    for entry in entries:
        for parent in reversed(Path(entry.name).parents):
            if str(parent) != ".":
                whole.setdefault(str(parent), Entry(str(parent), stat.S_IFDIR | 0o755))
        whole[entry.name] = entry
    parts = [_record(number, entry) for number, entry in enumerate(whole.values(), start=1)]
    return b"".join([*parts, _record(0, Entry("TRAILER!!!", 0))])


def _record(number: int, entry: Entry) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (number, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return padded(head) + padded(entry.content)


def padded(data: bytes) -> bytes:
    """Return data up to where the next header, or archive, may begin. Pure."""
    return data + bytes(-len(data) % 4)
