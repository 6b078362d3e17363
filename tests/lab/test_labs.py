"""Labs beside each other: none touches another, however alike their names are."""

from collections.abc import Callable

import pytest
from tests.lab import traces
from tests.lab.labctl import SWITCH, Labctl

from lab.places import Places

ADDRESS = "10.78.0.11"


@pytest.fixture(scope="module")
def labs(new_lab: Callable[[str], Labctl]) -> list[Labctl]:
    made = [new_lab(""), new_lab("1"), new_lab("-1")]
    for lab in made:
        lab("up", SWITCH)
        lab("add", "h1", ADDRESS)
    return made


def test_labs_with_the_same_addresses_do_not_meet(labs: list[Labctl]) -> None:
    for lab in labs:
        lab.inside("h1", "cp", "/etc/machine-id", "/root/lab")
        assert lab.answers_ssh(ADDRESS)
    assert len({lab.inside("h1", "cat", "/root/lab") for lab in labs}) == len(labs)


def test_making_what_is_there_changes_nothing(labs: list[Labctl]) -> None:
    lab = labs[0]
    before = lab("pid", "h1")
    lab("up", SWITCH)
    lab("add", "h1", ADDRESS)
    lab("start", "h1")
    assert lab("pid", "h1") == before
    refused = lab.attempt("up", "10.79.0.1/24")
    assert refused.returncode == 1
    assert "take the lab down first" in refused.stderr


def test_taking_one_down_leaves_those_whose_names_begin_alike(places: Places, labs: list[Labctl]) -> None:
    gone, *stay = labs
    before = [lab("pid", "h1") for lab in stay]
    gone("down")
    assert traces.of_lab(places, gone.lab) == {}
    assert [lab("pid", "h1") for lab in stay] == before
    for lab in stay:
        assert lab.answers_ssh(ADDRESS)


@pytest.mark.parametrize("verb", [["up", "", SWITCH], ["down", ""], ["add", "", "h1", ADDRESS]])
def test_there_is_no_default_lab(labs: list[Labctl], verb: list[str]) -> None:
    name, _, *words = verb
    refused = Labctl("").attempt(name, *words)
    assert refused.returncode == 1
    assert "there is no default lab" in refused.stderr
    assert labs[1]("pid", "h1")
