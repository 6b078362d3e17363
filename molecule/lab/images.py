"""Baked Debian trees that hosts boot from, each named by a hash of what it is made from.

An image is built beside the others in a directory of its own and published by a rename, under a lock: a
killed build leaves nothing that could be taken for an image, and of two builds at once the second finds the
first's.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from lab import recipe
from lab.commands import require_root, run
from lab.places import Places

KEEP_UNUSED = 7 * 24 * 3600.0  # seconds that an image of other lists is kept after its last use
_HALF_MADE = ".half-made."
_ARCHIVE = "opt/debs"


def path(places: Places, suite: str) -> Path:
    """Return where the image of a suite is, or would be."""
    return places.images / recipe.key(recipe.suite(suite), os.uname().machine)


def ensure(places: Places, suite: str) -> Path:
    """Return the image of a suite, building it if it is not there; one to three minutes then."""
    title = f"{recipe.SUITES[recipe.suite(suite)]} ({suite})"
    return obtain(places, path(places, suite), title, partial(_build, suite))


def obtain(places: Places, image: Path, title: str, build: Callable[[Path, int], str]) -> Path:
    """Return an image, having it built if it is not there.

    Args:
        places: the lab's directories.
        image: where it is, or would be.
        title: what it is, for the reader of the output.
        build: fills a directory that is not there yet, and returns what it has put there, in words. Whatever
            works on it gets the open file of the lock too: when we are killed, the next build waits for it.

    """
    require_root()
    with _locked(places) as lock:
        if not image.is_dir():
            print(f"lab: building the image of {title}", flush=True)
            started = time.monotonic()
            half_made = image.with_name(f"{_HALF_MADE}{image.name}")
            if half_made.exists():
                shutil.rmtree(half_made)
            contents = build(half_made, lock)
            half_made.rename(image)
            print(f"lab: built {image.name} in {time.monotonic() - started:.0f} s, {contents}", flush=True)
        os.utime(image)
        prune(places, keep=image)
        _make_key(places)
    return image


def prune(places: Places, *, keep: Path, unused: float = KEEP_UNUSED) -> list[Path]:
    """Delete what killed builds left, and images unused for so many seconds; return what was deleted.

    An image that a host's disk lies upon is in use however old it is, and so is ``keep``.
    """
    used = {keep} | {link.resolve() for link in places.root.glob("labs/*/*/image")}
    deleted = []
    for image in places.images.iterdir():
        half_made = image.name.startswith(_HALF_MADE)
        old = time.time() - image.stat().st_mtime > unused
        if half_made or (image.is_dir() and old and image not in used):
            shutil.rmtree(image)
            deleted.append(image)
    return deleted


@contextmanager
def _locked(places: Places) -> Iterator[int]:
    places.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    places.images.mkdir(exist_ok=True)
    with (places.root / "images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def _make_key(places: Places) -> None:
    if not places.key.with_suffix(".pub").exists():
        places.key.unlink(missing_ok=True)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(places.key)])


def _build(suite: str, tree: Path, lock: int) -> str:
    lines = sources(machine_sources(), suite)
    run(bootstrap_argv(suite, tree, lines, recipe.INSTALLED), holding=[lock])
    archived = _fill_archive(tree, lock)
    _finish(tree)
    return f"{archived} packages in its archive"


def machine_sources() -> str:
    """Return the machine's own package sources as lines ``URI|release|component``."""
    listing = [
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI)|$(RELEASE)|$(COMPONENT)",
        "Identifier: Packages",
    ]
    lines = run(listing).stdout
    if not lines.strip():  # apt knows its sources only once it has read them
        run(["apt-get", "--quiet", "update"])
        lines = run(listing).stdout
    return lines


def sources(machine: str, suite: str) -> list[str]:
    """Turn the machine's own sources into those of a suite, which need not be the machine's. Pure.

    Args:
        machine: lines ``URI|release|component``.
        suite: the wanted suite.

    Returns:
        Lines for a sources.list; none if the machine's sources are not Debian's, which leaves the choice to
        the bootstrapper.

    """
    found: dict[str, None] = {}
    for line in machine.splitlines():
        uri, release, component = line.split("|")
        codename, dash, rest = release.partition("-")
        if codename in recipe.SUITES and component == "main" and rest in ("", "updates", "security"):
            found[f"deb {uri} {suite}{dash}{rest} main"] = None
    return list(found)


def bootstrap_argv(suite: str, tree: Path, lines: list[str], installed: Sequence[str]) -> list[str]:
    """Return the argv that installs a bare Debian into a directory. Pure."""
    return [
        "mmdebstrap",
        "--quiet",
        "--mode=root",
        "--variant=minbase",
        f"--include={','.join(installed)}",
        '--aptopt=APT::Sandbox::User "root"',  # the tree lies below a directory that is root's alone
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--dpkgopt=force-unsafe-io",
        suite,
        str(tree),
        *lines,
    ]


def _fill_archive(tree: Path, lock: int) -> int:
    """Download what hosts may install, with all that it needs; return how many packages that are."""
    archive = tree / _ARCHIVE
    (archive / "partial").mkdir(parents=True)
    apt = [
        "apt-get",
        "--quiet=2",
        f"--option=Dir={tree}",
        f"--option=Dir::State::status={tree}/var/lib/dpkg/status",
        f"--option=Dir::Cache::archives={archive}",
        "--option=Dir::Etc::trustedparts=/etc/apt/trusted.gpg.d",
        "--option=APT::Sandbox::User=root",
        "--option=APT::Install-Recommends=false",
    ]
    run([*apt, "update"], holding=[lock])
    for together in (recipe.ARCHIVED, *((alone,) for alone in recipe.ARCHIVED_APART)):
        run([*apt, "--yes", "--download-only", "install", *together], holding=[lock])
    shutil.rmtree(archive / "partial")
    (archive / "lock").unlink(missing_ok=True)
    packages = run(["dpkg-scanpackages", "--multiversion", "."], cwd=archive).stdout
    (archive / "Packages").write_text(packages)
    return packages.count("\nFilename: ")


def _finish(tree: Path) -> None:
    apt = tree / "etc/apt"
    shutil.rmtree(apt / "sources.list.d", ignore_errors=True)
    (apt / "sources.list.d").mkdir()
    (apt / "apt.conf.d/99mmdebstrap").unlink(missing_ok=True)
    (apt / "sources.list").write_text(f"deb [trusted=yes] file:/{_ARCHIVE} ./\n")
    for place in ("var/lib/apt/lists", "var/cache/apt"):
        shutil.rmtree(tree / place)
        (tree / place).mkdir()
    run(["chroot", str(tree), "apt-get", "--quiet=2", "update"])
    for timer in recipe.DISABLED:
        if (tree / "usr/lib/systemd/system" / timer).exists():
            run(["systemctl", f"--root={tree}", "--quiet", "disable", timer])
    for name in ("etc/machine-id", "etc/hostname", "etc/resolv.conf"):
        (tree / name).unlink(missing_ok=True)
