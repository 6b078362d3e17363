"""Images: built once, whole or not at all."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lab.labctl import PROGRAM

from lab import images, recipe
from lab.commands import wait_for
from lab.places import Places

# Stands in for the bootstrapper: begins a tree, says who it is, and stays at work.
BOOTSTRAPPER = f"""#!{sys.executable}
import os, pathlib, sys, time
tree = next(pathlib.Path(word) for word in sys.argv if "half-made" in word)
tree.mkdir()
(tree / "pid").write_text(str(os.getpid()))
time.sleep(600)
"""


@pytest.mark.parametrize("suite", recipe.SUITES)
def test_an_image_has_nothing_that_the_kit_is_to_install(places: Places, suite: str) -> None:
    tree = images.ensure(places, suite)
    known = (tree / "var/lib/dpkg/status").read_text().split("\n\n")
    installed = {block.split("\n")[0].removeprefix("Package: ") for block in known if block}
    assert set(recipe.INSTALLED) <= installed
    assert not {*recipe.ARCHIVED, *recipe.ARCHIVED_APART} & installed
    sources = [path for path in (tree / "etc/apt").rglob("sources.list*") if path.is_file()]
    assert [path.read_text() for path in sources] == ["deb [trusted=yes] file:/opt/debs ./\n"]


def test_an_image_that_is_there_is_not_built_again(places: Places) -> None:
    before = images.ensure(places, "trixie").stat().st_ino
    done = subprocess.run([PROGRAM, "images", "trixie"], check=True, capture_output=True, text=True)
    assert done.stdout == f"{images.path(places, 'trixie')}\n"
    assert images.ensure(places, "trixie").stat().st_ino == before


def test_a_killed_build_leaves_no_image_and_holds_off_the_next_until_it_is_over(tmp_path: Path) -> None:
    places = Places(tmp_path / "lab")
    fake = tmp_path / "mmdebstrap"
    fake.write_text(BOOTSTRAPPER)
    fake.chmod(0o755)
    environment = {
        **os.environ,
        "ROTA_LAB_ROOT": str(places.root),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    with subprocess.Popen([PROGRAM, "images", "trixie"], env=environment, stdout=subprocess.DEVNULL) as build:
        assert wait_for(lambda: any(places.images.glob(".half-made.*/pid")), seconds=60)
        build.kill()
    worker = int(next(places.images.glob(".half-made.*/pid")).read_text())
    with (places.root / "images.lock").open() as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.kill(worker, signal.SIGKILL)
        fcntl.flock(lock, fcntl.LOCK_EX)
    assert not images.path(places, "trixie").exists()
    assert images.prune(places, keep=images.path(places, "trixie"))
    assert list(places.images.iterdir()) == []
