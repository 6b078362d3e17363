"""The packaged `hub.toml` and the settings' model say the same."""

import re
import tomllib
from collections.abc import Iterator
from importlib import resources

import pytest

from rota.settings.model import SECTIONS, key_types
from rota.settings.values import from_toml

TEXT = resources.files("rota").joinpath("hub.toml").read_text(encoding="utf-8")
KEYS = [(section, key) for section, keys in key_types().items() for key in keys]


def documented() -> Iterator[tuple[str, str, str]]:
    """Yield (section, key, the comment right above it)."""
    section, comment = "", ""
    for line in TEXT.splitlines():
        if line.startswith("#"):
            comment += line.removeprefix("#") + "\n"
        elif match := re.match(r"\[(\w+)\]$", line):
            section, comment = match[1], ""
        elif match := re.match(r"(\w+) = ", line):
            yield section, match[1], comment.strip()
            comment = ""
        elif line:
            raise AssertionError(f"a line that is neither comment, section nor key: {line}")
        else:
            comment = ""


def test_it_holds_every_setting_in_the_models_order_and_nothing_more() -> None:
    document = tomllib.loads(TEXT)
    assert [(section, key) for section, body in document.items() for key in body] == KEYS
    assert list(document) == list(SECTIONS)


@pytest.mark.parametrize(("section", "key"), KEYS)
def test_each_default_has_its_settings_type(section: str, key: str) -> None:
    from_toml(tomllib.loads(TEXT)[section][key], key_types()[section][key])


def test_each_setting_is_explained_in_a_sentence_above_it() -> None:
    comments = {(section, key): comment for section, key, comment in documented()}
    assert list(comments) == KEYS
    for name, comment in comments.items():
        assert re.match(r'[A-Z"].*[.]$', comment, re.DOTALL), f"{name} is not explained: {comment!r}"
        assert len(comment.split()) >= 6, f"{name} is hardly explained: {comment!r}"


def test_the_model_has_no_defaults_of_its_own() -> None:
    """A default that stands in two places would drift apart."""
    for section in SECTIONS.values():
        with pytest.raises(TypeError, match="missing"):
            section()
