"""Secrets show themselves to nobody by accident."""

import json
import pickle

import pytest

from rota.secret import Secret

CANARY = "canary-9b1d"


@pytest.mark.parametrize("shown", [repr, str, "{}".format, "{!r:>20}".format, lambda value: f"{[value]}"])
def test_a_secret_is_never_written(shown: object) -> None:
    assert callable(shown)
    text = shown(Secret(CANARY))
    assert "[redacted]" in text
    assert CANARY not in text


def test_a_secret_has_no_dictionary_that_a_dump_would_show() -> None:
    assert not hasattr(Secret(CANARY), "__dict__")
    with pytest.raises(TypeError):
        json.dumps(Secret(CANARY))


def test_reveal_is_the_way_to_read_it() -> None:
    assert Secret(CANARY).reveal() == CANARY


def test_an_unset_secret_is_false_and_matches_nothing() -> None:
    assert not Secret()
    assert repr(Secret()) == "[unset]"
    assert not Secret().matches("")


@pytest.mark.parametrize(
    ("given", "same"), [(CANARY, True), (CANARY[:-1], False), ("", False), ("ä€", False)]
)
def test_it_matches_only_itself(given: str, same: bool) -> None:  # noqa: FBT001
    assert Secret(CANARY).matches(given) is same


def test_secrets_compare_by_value_and_with_nothing_else() -> None:
    assert Secret(CANARY) == Secret(CANARY)
    assert hash(Secret(CANARY)) == hash(Secret(CANARY))
    assert Secret(CANARY) != Secret("other")
    assert Secret(CANARY) != CANARY


def test_a_copy_of_a_secret_is_the_same_secret() -> None:
    assert pickle.loads(pickle.dumps(Secret(CANARY))) == Secret(CANARY)  # noqa: S301 - our own bytes
