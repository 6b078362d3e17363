"""The reference pages say what the program says."""

import pytest
from tools.reference import REFERENCE, commands, documented, pages

from rota.cli import rota
from rota.settings.model import key_types


@pytest.mark.parametrize("name", pages())
def test_the_pages_are_current(name: str) -> None:
    written = (REFERENCE / name).read_text(encoding="utf-8")
    assert written == pages()[name], "run: .venv/bin/python tools/reference.py"


def test_every_setting_is_on_its_page() -> None:
    page = pages()["settings.md"]
    for section, keys in key_types().items():
        for key in keys:
            assert f"### {section}.{key}\n" in page
            assert f"`ROTA_{section.upper()}_{key.upper()}`" in page
    assert "credential `database-password`" in page


def test_every_command_is_on_its_page() -> None:
    page = pages()["cli.md"]
    found = [context.command_path for context in commands(rota, "rota")]
    assert {"rota", "rota serve", "rota migrate", "rota settings", "rota backup verify"} <= set(found)
    assert all(f"## {path}\n" in page and f"Usage: {path} " in page for path in found)


def test_a_settings_comment_ends_where_the_next_setting_begins() -> None:
    text = "[a]\n# One.\none = 1\n\n# Two,\n# and more.\ntwo = []\nthree = 3\n"
    assert [(each.key, each.default, each.comment) for each in documented(text)] == [
        ("one", "1", "One."),
        ("two", "[]", "Two,\nand more."),
        ("three", "3", ""),
    ]
