"""Labs of the tests' own, each with a name that no one else uses, taken away at the end whatever happened."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.lab.labctl import Labctl

from lab.places import Places


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this directory: each needs root and the lab's packages."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.lab)


@pytest.fixture(scope="session")
def places() -> Places:
    """Give the lab's directories, images among them."""
    return Places.from_environment()


@pytest.fixture(scope="module")
def new_lab(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Labctl]]:
    """Give a maker of labs that are not up yet, named for the test module and what it is told."""
    made: list[Labctl] = []
    module = request.module.__name__.rpartition("test_")[2]

    def make(suffix: str) -> Labctl:
        made.append(Labctl(f"t{os.getpid()}-{module}{suffix}"))
        return made[-1]

    yield make
    for each in made:
        each.attempt("down")
