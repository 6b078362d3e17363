"""The named statements: the same in both dialects, with their columns named."""

import re

import pytest

from rota.store.statements import statements

DIALECTS = ("sqlite", "postgresql")


def parameters(dialect: str, sql: str) -> set[str]:
    pattern = r"(?<![:\w]):([a-z_]+)" if dialect == "sqlite" else r"%\(([a-z_]+)\)s"
    return set(re.findall(pattern, without_comments(sql)))


def without_comments(sql: str) -> str:
    return re.sub(r"--[^\n]*", "", sql)


def columns(sql: str) -> list[str]:
    """Return the names under which a statement's results come back."""
    text = re.sub(r"\([^()]*\)", "()", without_comments(sql))
    while (shorter := re.sub(r"\([^()]*\)", "()", text.replace("()", ""))) != text:
        text = shorter
    match = re.search(r"\bRETURNING\b(.*)$|^\s*SELECT\b(.*?)(\bFROM\b|$)", text, re.DOTALL)
    if match is None:
        return []
    listed = (match[1] or match[2]).split(",")
    return [item.split()[-1].rpartition(".")[2] for item in listed if item.split()]


def test_both_dialects_have_the_same_names() -> None:
    assert set(statements("sqlite")) == set(statements("postgresql")) != set()


def test_both_dialects_take_the_same_parameters() -> None:
    for name in statements("sqlite"):
        assert parameters("sqlite", statements("sqlite")[name]) == parameters(
            "postgresql", statements("postgresql")[name]
        ), name


def test_both_dialects_give_the_same_columns() -> None:
    for name in statements("sqlite"):
        assert columns(statements("sqlite")[name]) == columns(statements("postgresql")[name]), name


@pytest.mark.parametrize("dialect", DIALECTS)
def test_columns_are_always_named(dialect: str) -> None:
    for name, sql in statements(dialect).items():
        text = without_comments(sql)
        assert not re.search(r"SELECT\s+(\w+\.)?\*|RETURNING\s+\*", text, re.IGNORECASE), name
        if "INSERT" in text and "DEFAULT VALUES" not in text:
            assert re.search(r"INSERT INTO \w+( AS \w+)?\s*\(", text), f"{name} names no columns"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_name_holds_one_statement(dialect: str) -> None:
    for name, sql in statements(dialect).items():
        assert re.fullmatch(r"[a-z]+\.[a-z_]+", name)
        assert ";" not in re.sub(r"'[^']*'", "", without_comments(sql)), name


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_statement_is_put_together_from_values(dialect: str) -> None:
    for name, sql in statements(dialect).items():
        assert not re.search(r"\{|%s|\$\d|\?", without_comments(sql)), name
