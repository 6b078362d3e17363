"""Packs a directory into a tar archive that is the same bytes wherever and whenever it is packed."""

import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from rota.errors import InputError

ALWAYS = (".git/", ".hg/", ".svn/", "__pycache__/", ".venv/", "node_modules/", ".rota/")
IGNORES = (".gitignore", ".rotaignore")  # the later one wins: it can take back what the first leaves out
PIECE = 1 << 20
LONGEST_PART, LONGEST_PATH, DEEPEST = 255, 4096, 64

Ignored = Callable[[str], bool]  # of a path as `static/` or `app.py`


@dataclass(frozen=True)
class _Found:
    """Something to pack: its path in the archive, and where a link leads, empty for no link."""

    name: str
    path: Path
    mode: int
    size: int
    link: str = ""


def pack_source(directory: Path, file: IO[bytes]) -> int:
    """Pack what is to be built, without what its ignore files name; return how many files.

    Raises InputError for what cannot be packed, with the path and the remedy.
    """
    return pack(directory, file, ignored_by(directory))


def pack(directory: Path, file: IO[bytes], ignored: Ignored = lambda _: False) -> int:
    """Pack a directory: files, directories, and links that stay inside it. Raises InputError."""
    names, files = dict[str, str](), 0
    with tarfile.TarFile(fileobj=file, mode="w", format=tarfile.PAX_FORMAT, copybufsize=PIECE) as archive:
        for found in _walk(directory, directory, ignored):
            _refuse_double(names, found.name)
            files += not stat.S_ISDIR(found.mode)
            _add(archive, found)
    if not files:
        raise InputError(f"{directory} holds nothing to deploy.", "Is it the app's directory?")
    return files


def ignored_by(directory: Path) -> Ignored:
    """Return what tells whether a path is left out, by the ignore files at the top of a directory."""
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - only who packs a source pays for it

    lines = list(ALWAYS)
    for name in IGNORES:
        path = directory / name
        if path.is_file():
            lines += path.read_text(encoding="utf-8", errors="replace").splitlines()
    return GitIgnoreSpec.from_lines(lines).match_file


def _walk(top: Path, directory: Path, ignored: Ignored) -> Iterator[_Found]:
    """Yield what is in a directory, each before what is below it, by the bytes of its name."""
    for path in sorted(directory.iterdir(), key=lambda each: os.fsencode(each.name)):
        status = path.lstat()
        name = _checked(path.relative_to(top))
        is_directory = stat.S_ISDIR(status.st_mode)
        if ignored(name + "/" if is_directory else name):
            continue
        if is_directory:
            yield _Found(name, path, status.st_mode, 0)
            yield from _walk(top, path, ignored)
        elif stat.S_ISREG(status.st_mode):
            yield _Found(name, path, status.st_mode, status.st_size)
        elif stat.S_ISLNK(status.st_mode):
            yield _Found(name, path, status.st_mode, 0, _target(top, path, name))
        else:
            raise InputError(
                f"{name} is neither a file, a directory nor a link.", "Remove it, or name it in .rotaignore."
            )


def _checked(path: Path) -> str:
    name = path.as_posix()
    try:
        length = len(name.encode())
        wrong = not name.isprintable() or any(len(part.encode()) > LONGEST_PART for part in path.parts)
    except UnicodeEncodeError:
        length, wrong = 0, True
    if wrong or length > LONGEST_PATH or len(path.parts) > DEEPEST:
        raise InputError(
            f"The name {name!r:.200} is not UTF-8, not printable, too long or too deep.",
            "Rename it, or name it in .rotaignore.",
        )
    return name


def _target(top: Path, path: Path, name: str) -> str:
    """Return where a link leads, as a path from the link that goes through no other link."""
    root = top.resolve()
    leads = path.resolve()
    if not leads.is_relative_to(root) or leads == root:
        raise InputError(
            f"{name} is a link that leads out of the directory, to {path.readlink()}.",
            "Put a copy in its place, or name it in .rotaignore.",
        )
    here = PurePosixPath(path.parent.resolve().relative_to(root))
    return os.path.relpath(leads.relative_to(root), here)


def _refuse_double(names: dict[str, str], name: str) -> None:
    other = names.setdefault(name.casefold(), name)
    if other != name:
        raise InputError(
            f"{name} and {other} differ by case alone, which no archive of ours holds.", "Rename one of them."
        )


def _add(archive: tarfile.TarFile, found: _Found) -> None:
    info = tarfile.TarInfo(found.name)
    info.mode = 0o755 if found.mode & stat.S_IXUSR else 0o644
    if found.link:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, found.link, 0o777
        archive.addfile(info)
    elif stat.S_ISDIR(found.mode):
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(info)
    else:
        info.size = found.size
        descriptor = os.open(found.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            try:
                archive.addfile(info, file)
            except OSError as error:
                raise InputError(
                    f"{found.name} changed while it was packed: {error}.", "Try again."
                ) from error
