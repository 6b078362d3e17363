"""The numbered migrations, and what a program makes of a database's own."""

import re

import pytest

from rota.errors import EXIT_CONFIG, SchemaError
from rota.store.migrations import Migration, migrations, pending, program_schema, refuse_if_too_new

DIALECTS = ("sqlite", "postgresql")
# Within one version the processes of two releases work on one schema. So a
# migration only adds; what goes has to wait until no process needs it.
DESTRUCTIVE = re.compile(
    r"\b(DROP|RENAME|TRUNCATE|DELETE|ALTER\s+COLUMN|SET\s+NOT\s+NULL|TYPE)\b", re.IGNORECASE
)


def row(migration: Migration, **changed: object) -> dict[str, object]:
    fields = ("number", "name", "tolerates", "digest")
    return {field: getattr(migration, field) for field in fields} | changed


def without_comments(sql: str) -> str:
    return re.sub(r"--[^\n]*", "", sql)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_numbers_begin_at_one_and_have_no_gap(dialect: str) -> None:
    assert [step.number for step in migrations(dialect)] == list(range(1, program_schema(dialect) + 1))


def test_both_dialects_have_the_same_ones() -> None:
    sqlite, postgresql = (
        [(step.number, step.name, step.tolerates) for step in migrations(dialect)] for dialect in DIALECTS
    )
    assert sqlite == postgresql


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_says_on_its_first_line_what_it_tolerates(dialect: str) -> None:
    for step in migrations(dialect):
        assert step.sql.startswith(f"-- tolerates: {step.tolerates}\n-- "), f"{step.number} explains itself"
        assert 1 <= step.tolerates <= step.number


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_only_adds(dialect: str) -> None:
    for step in migrations(dialect):
        found = DESTRUCTIVE.search(without_comments(step.sql))
        assert found is None, f"{dialect} {step.number} {step.name}: {found and found[0]}"


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE a;",
        "ALTER TABLE a RENAME TO b;",
        "ALTER TABLE a ALTER COLUMN b TYPE bigint;",
        "alter table a drop column b;",
        "ALTER TABLE a ALTER b SET NOT NULL",
    ],
)
def test_the_check_for_adding_only_finds_what_does_not(sql: str) -> None:
    assert DESTRUCTIVE.search(sql)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_both_dialects_make_the_same_tables_and_columns(dialect: str) -> None:
    def shape(name: str) -> dict[str, list[str]]:
        text = without_comments("".join(step.sql for step in migrations(name)))
        tables = re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", text, re.DOTALL)
        return {table: re.findall(r"^    (\w+) ", body, re.MULTILINE) for table, body in tables}

    assert shape(dialect) == shape("postgresql") != {}


def test_an_empty_database_needs_all() -> None:
    assert pending("sqlite", []) == list(migrations("sqlite"))


def test_a_current_database_needs_none() -> None:
    assert pending("sqlite", [row(step) for step in migrations("sqlite")]) == []


def test_a_newer_database_that_tolerates_this_program_is_left_alone() -> None:
    mine = program_schema()
    applied = [row(step) for step in migrations("sqlite")]
    newer = {"number": mine + 1, "name": "later", "tolerates": mine, "digest": "x"}
    assert pending("sqlite", [*applied, newer]) == []


def test_a_database_that_needs_a_newer_program_is_refused() -> None:
    mine = program_schema()
    newer = {"number": mine + 1, "name": "later", "tolerates": mine + 1, "digest": "x"}
    with pytest.raises(SchemaError) as caught:
        pending("sqlite", [newer])
    assert str(caught.value) == (
        f"the database needs a program of schema {mine + 1} or newer, and this one has {mine}: "
        "install the release that the other processes run"
    )
    assert caught.value.exit_code == EXIT_CONFIG


def test_a_database_of_another_history_is_refused() -> None:
    first = migrations("sqlite")[0]
    with pytest.raises(SchemaError, match=r"migration 1 \(foundation\) is not this program's"):
        pending("sqlite", [row(first, digest="0" * 64)])


def test_the_bound_itself_is_tolerated() -> None:
    refuse_if_too_new(3, 3)
    with pytest.raises(SchemaError):
        refuse_if_too_new(4, 3)
