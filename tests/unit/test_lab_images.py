"""Which images are kept and which are deleted."""

import os
import time
from pathlib import Path

import pytest

from lab import images
from lab.places import Places


@pytest.fixture
def places(tmp_path: Path) -> Places:
    made = Places(tmp_path)
    made.images.mkdir()
    return made


def image(places: Places, name: str, *, days: float) -> Path:
    """Make an image last used so many days ago."""
    made = places.images / name
    made.mkdir()
    used = time.time() - days * 24 * 3600
    os.utime(made, (used, used))
    return made


def test_what_nobody_used_for_long_is_deleted(places: Places) -> None:
    current = image(places, "trixie-new", days=30)
    old = image(places, "trixie-old", days=30)
    recent = image(places, "trixie-other", days=1)
    assert images.prune(places, keep=current) == [old]
    assert sorted(places.images.iterdir()) == [current, recent]


def test_an_image_under_a_disk_stays(places: Places) -> None:
    current = image(places, "trixie-new", days=0)
    old = image(places, "trixie-old", days=30)
    home = places.host("a", "h1")
    home.mkdir(parents=True)
    (home / "image").symlink_to(old)
    assert images.prune(places, keep=current) == []


def test_what_a_killed_build_left_is_deleted(places: Places) -> None:
    current = image(places, "trixie-new", days=0)
    left = image(places, ".half-made.trixie-other", days=0)
    assert images.prune(places, keep=current) == [left]
