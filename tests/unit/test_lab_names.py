"""Names of labs and hosts: exact, and never taken for one another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import names
from lab.errors import LabError

LABS = st.from_regex(r"[a-z]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize("name", ["a", "a1", "a-1", "single-bookworm", "x" * 32])
def test_a_lab_may_be_called(name: str) -> None:
    assert names.lab_name(name) == name


@pytest.mark.parametrize("name", ["A", "1a", "-a", "a-", "a.b", "a/b", "..", "a b", "a\n", "ä", "x" * 33])
def test_a_lab_may_not_be_called(name: str) -> None:
    with pytest.raises(LabError, match="cannot name a lab"):
        names.lab_name(name)


def test_there_is_no_default_name() -> None:
    with pytest.raises(LabError, match="there is no default lab"):
        names.lab_name("")
    with pytest.raises(LabError, match="there is no default host"):
        names.host_name("")


def test_the_longest_host_name_fits_an_interface() -> None:
    longest = "h" * 13
    assert len(names.port(names.host_name(longest))) == 15
    with pytest.raises(LabError, match="at most 13"):
        names.host_name(longest + "h")


@given(one=LABS, other=LABS, host=LABS)
def test_nothing_of_one_lab_is_of_another(one: str, other: str, host: str) -> None:
    for netns in (names.switch_netns(other), names.host_netns(other, host)):
        assert names.is_of_lab(netns, one) == (one == other)
        assert names.lab_of(netns) == other
    if one != other:
        assert names.cgroup(one) != names.cgroup(other)
        assert not names.cgroup(other, host).startswith(f"{names.cgroup(one)}/")
        assert names.machine(one, host) != names.machine(other, host)


@pytest.mark.parametrize("netns", ["rota", "rota-lab", "rota-lab.", "other.a", "rota-labs.a"])
def test_a_namespace_of_someone_else_is_of_no_lab(netns: str) -> None:
    assert names.lab_of(netns) is None
    assert not names.is_of_lab(netns, "a")
