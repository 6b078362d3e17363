"""Artifacts on a server: checked, unpacked by a child without rights, then root's and read-only."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

from rota.rootd.fields import RefusedError
from rota.rootd.places import Places, placed, sync

USER = "rota-unpack"
LONGEST = 1800  # seconds that unpacking may take
PIECE = 1 << 20


def unpack(places: Places, fields: dict[str, Any], archive: int | None) -> dict[str, Any]:
    """Unpack an archive, passed as a descriptor, into the tree of its SHA-256, once."""
    tree: Path = places.artifacts / fields["sha256"]
    if tree.is_dir():
        return {"artifact": "there"}
    if archive is None:
        raise RefusedError("no archive was passed")
    with tempfile.TemporaryFile(dir=places.artifacts) as copy:
        _copy(archive, copy, fields["size"])
        if hashlib.file_digest(copy, "sha256").hexdigest() != fields["sha256"]:
            raise RefusedError("the archive has another SHA-256")
        copy.seek(0)
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=places.artifacts))
        try:
            _child(copy, fresh, fields["size"])
            _own(fresh)
            os.sync()  # all of the tree is on the disk before it has its name
            fresh.rename(tree)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    sync(places.artifacts)
    return {"artifact": "unpacked"}


def forget(places: Places, fields: dict[str, Any], _: int | None = None) -> dict[str, Any]:
    """Delete an artifact that no placed copy uses; none there is well too."""
    tree: Path = places.artifacts / fields["sha256"]
    if fields["sha256"] in {each["sha256"] for each in placed(places).values()}:
        raise RefusedError("a placed copy uses this artifact")
    if tree.is_dir():
        old = tree.with_name(f".old-{tree.name}")
        tree.rename(old)
    sweep(places)
    return {"artifact": "gone"}


def sweep(places: Places) -> None:
    """Delete what a rootd that was killed has left half done."""
    for left in places.artifacts.glob(".*"):
        shutil.rmtree(left, ignore_errors=True)


def _copy(archive: int, copy: IO[bytes], size: int) -> None:
    """Copy exactly so many bytes, from the beginning: what its owner does to the archive later is nothing."""
    free = os.fstatvfs(copy.fileno())
    if free.f_bavail * free.f_frsize < 2 * size:
        raise RefusedError(f"the disk has too little room: twice {size} bytes are needed")
    at = 0
    while piece := os.pread(archive, min(PIECE, size + 1 - at), at):
        at += len(piece)
        copy.write(piece)
    if at != size:
        raise RefusedError("the archive has another size")
    copy.seek(0)


def _child(archive: IO[bytes], fresh: Path, size: int) -> None:
    """Have the archive unpacked by a user who may do nothing else."""
    shutil.chown(fresh, USER, USER)
    argv = [sys.executable, "-I", "-m", "rota.archive.extract", str(size)]
    clean = {"PATH": "/usr/bin", "LC_ALL": "C.UTF-8"}
    who: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": []}
    done = subprocess.run(  # noqa: S603
        argv, stdin=archive, capture_output=True, cwd=fresh, env=clean, timeout=LONGEST, check=False, **who
    )
    if done.returncode != 0:
        raise RefusedError(f"the archive: {done.stderr.decode(errors='replace').strip()[-500:]}")


def _own(fresh: Path) -> None:
    """Give the tree to root, by descriptors and following no link; nobody else can reach it meanwhile."""
    for _, directories, files, above in os.fwalk(fresh, follow_symlinks=False):
        os.fchown(above, 0, 0)
        os.fchmod(above, 0o755)
        for name in (*directories, *files):
            os.chown(name, 0, 0, dir_fd=above, follow_symlinks=False)
