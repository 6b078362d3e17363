"""Raw values become typed ones, or a reason why not."""

import os
from pathlib import Path
from typing import Any

import pytest

from rota.secret import Secret
from rota.settings.values import from_text, from_toml

STRINGS = tuple[str, ...]


@pytest.mark.parametrize(
    ("raw", "wanted", "value"),
    [
        (["web", "worker"], STRINGS, ("web", "worker")),
        ([], STRINGS, ()),
        (True, bool, True),
        (7, int, 7),
        ("text", str, "text"),
        ("/srv/rota", Path, Path("/srv/rota")),
        ("hidden", Secret, Secret("hidden")),
    ],
)
def test_toml_values_of_the_right_type_are_taken(raw: object, wanted: Any, value: object) -> None:
    assert from_toml(raw, wanted) == value


@pytest.mark.parametrize(
    ("raw", "wanted", "reason"),
    [
        ("web", STRINGS, "a list of strings"),
        (["web", 1], STRINGS, "a list of strings"),
        ("true", bool, "true or false without quotes"),
        (1, bool, "true or false without quotes"),
        ("4", int, "a whole number without quotes"),
        (True, int, "a whole number without quotes"),
        (4.0, int, "a whole number without quotes"),
        (4, str, "a string in quotes"),
        (["a"], Path, "a string in quotes"),
        ({"a": 1}, str, "a string in quotes"),
        ("", Path, "a directory"),
        ("a\0b", str, "NUL"),
    ],
)
def test_toml_values_of_a_wrong_type_are_explained(raw: object, wanted: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        from_toml(raw, wanted)


@pytest.mark.parametrize("raw", [4711, ["4711"], {"a": "4711"}, True])
def test_a_secret_of_a_wrong_type_is_not_repeated(raw: object) -> None:
    with pytest.raises(ValueError, match="a string in quotes") as caught:
        from_toml(raw, Secret)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "wanted", "value"),
    [
        ("web, worker,,", STRINGS, ("web", "worker")),
        (" , ", STRINGS, ()),
        ("YES", bool, True),
        (" off ", bool, False),
        ("0", bool, False),
        (" 12 ", int, 12),
        ("", str, ""),
        (" kept as it is ", Secret, Secret(" kept as it is ")),
    ],
)
def test_texts_are_read_by_their_type(raw: str, wanted: Any, value: object) -> None:
    assert from_text(raw, wanted) == value


@pytest.mark.parametrize(
    ("raw", "wanted", "reason"),
    [
        ("maybe", bool, "true or false"),
        ("", bool, "true or false"),
        ("four", int, "a whole number"),
        ("4.5", int, "a whole number"),
        ("", Path, "a directory"),
        ("a\0b", Secret, "NUL"),
        (os.fsdecode(b"p\xff"), Secret, "UTF-8"),
    ],
)
def test_texts_that_cannot_be_read_are_explained(raw: str, wanted: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        from_text(raw, wanted)


def test_a_relative_directory_is_taken_from_where_the_program_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert from_text("data", Path) == tmp_path / "data"
