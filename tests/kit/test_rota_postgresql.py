"""rota_postgresql keeps a role and a database on a real server, and sends it no password."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from plugins.modules import rota_postgresql as module
from tests.kit.modules import Capture, run
from tests.support.postgres import Server, binary

PASSWORD = "KITCANARY 'quoted' $1 %s \\"


@pytest.fixture
def given(postgres: Server) -> Iterator[dict[str, Any]]:
    """Give the arguments for a role and a database that are not there, and drop them afterwards."""
    yield {
        "user": "kit",
        "password": PASSWORD,
        "database": "kit-db",
        "psql": binary("psql"),
        "port": postgres.port,
        "socket": str(postgres.directory),
    }
    with postgres.admin() as connection:
        connection.execute('DROP DATABASE IF EXISTS "kit-db"')
        connection.execute("DROP ROLE IF EXISTS kit")


def log_in(postgres: Server, password: str) -> str:
    with psycopg.connect(
        host="127.0.0.1", port=postgres.port, user="kit", password=password, dbname="kit-db"
    ) as connection:
        row = connection.execute("SELECT current_user").fetchone()
    return str(row[0]) if row else ""


def test_the_first_run_makes_both_and_the_second_nothing(
    postgres: Server, given: dict[str, Any], capsys: Capture
) -> None:
    first = run(module.main, capsys, given)
    assert first["actions"] == ["make the role kit", "make the database kit-db"]
    assert log_in(postgres, PASSWORD) == "kit"
    second = run(module.main, capsys, given)
    assert (second["changed"], second["actions"], second["pending_restart"]) == (False, [], [])
    with postgres.admin("kit-db") as connection:
        shown = connection.execute("SHOW server_encoding").fetchone()
        may = connection.execute(
            "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication FROM pg_roles WHERE rolname = 'kit'"
        )
        assert shown == ("UTF8",)
        assert may.fetchone() == (False, False, False, False)


def test_what_differs_is_put_right(postgres: Server, given: dict[str, Any], capsys: Capture) -> None:
    run(module.main, capsys, given)
    with postgres.admin() as connection:
        connection.execute("ALTER ROLE kit NOLOGIN")
        connection.execute('ALTER DATABASE "kit-db" OWNER TO postgres')
    answer = run(module.main, capsys, {**given, "password": "another"})
    assert answer["actions"] == [
        "let the role kit log in",
        "set the password of the role kit",
        "give the database kit-db to the role kit",
    ]
    assert log_in(postgres, "another") == "kit"
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        log_in(postgres, PASSWORD)


def test_the_server_never_hears_the_password_and_logs_no_verifier(
    postgres: Server, given: dict[str, Any], capsys: Capture
) -> None:
    with postgres.admin() as connection:
        connection.execute("ALTER SYSTEM SET log_statement = 'all'")
        connection.execute("SELECT pg_reload_conf()")
    log = postgres.directory / "log"
    try:
        run(module.main, capsys, given)
        refused = run(module.main, capsys, {**given, "user": "pg_reserved"})
        with postgres.admin() as connection:
            connection.execute("SELECT 'the log is written'")
        text = log.read_text()
    finally:
        with postgres.admin() as connection:
            connection.execute("ALTER SYSTEM RESET log_statement")
            connection.execute("SELECT pg_reload_conf()")
    assert "the log is written" in text
    assert [word for word in ("KITCANARY", "SCRAM-SHA-256$") if word in text or word in str(refused)] == []


def test_a_check_foretells_without_a_server_and_with_one(
    postgres: Server, given: dict[str, Any], capsys: Capture
) -> None:
    check = {**given, "_ansible_check_mode": True}
    both = ["make the role kit", "make the database kit-db"]
    for there in ({}, {"psql": "/nowhere/psql"}, {"socket": "/nowhere"}):
        assert run(module.main, capsys, {**check, **there})["actions"] == both
    with postgres.admin() as connection:
        assert connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'kit'").fetchone() is None


def test_a_server_that_does_not_answer_is_told(given: dict[str, Any], capsys: Capture) -> None:
    absent = run(module.main, capsys, {**given, "psql": "/nowhere/psql"})
    assert absent["msg"] == "/nowhere/psql is not there: is PostgreSQL installed?"
    silent = run(module.main, capsys, {**given, "socket": "/nowhere"})
    assert silent["msg"].startswith("PostgreSQL refused: psql: error: connection to server on socket")


@pytest.mark.parametrize("password", ["", "naïve", "two\nlines"])
def test_a_password_that_could_be_read_in_two_ways_is_refused(
    given: dict[str, Any], capsys: Capture, password: str
) -> None:
    answer = run(module.main, capsys, {**given, "password": password})
    assert answer["msg"] == "The password of the role kit must be printable ASCII, and not empty."


def test_access_rules_that_the_server_cannot_read_are_told(
    postgres: Server, given: dict[str, Any], capsys: Capture
) -> None:
    rules = postgres.directory / "data" / "pg_hba.conf"
    sound = rules.read_text()
    rules.write_text(sound + "host all all 10.98.0.300/32 scram-sha-256\n")
    try:
        answer = run(module.main, capsys, given)
    finally:
        rules.write_text(sound)
    assert "PostgreSQL cannot read its file of access rules: line " in answer["msg"]
    assert "10.98.0.300" in answer["msg"]


def test_settings_that_wait_for_a_restart_are_named(
    postgres: Server, given: dict[str, Any], capsys: Capture
) -> None:
    file = postgres.directory / "data" / "postgresql.conf"
    before = file.read_text()
    file.write_text(before + "max_locks_per_transaction = 65\n")
    try:
        waiting = run(module.main, capsys, given)["pending_restart"]
    finally:
        file.write_text(before)
    assert waiting == ["max_locks_per_transaction"]
    assert run(module.main, capsys, given)["pending_restart"] == []


def test_a_database_in_another_encoding_is_refused() -> None:
    found = module.Found(login=True, owner="kit", encoding="SQL_ASCII")
    with pytest.raises(module.Refused, match="in the encoding SQL_ASCII, and must be in UTF8"):
        module.plan(found, "kit", "secret", "kit-db")


def test_a_verifier_is_this_passwords_alone() -> None:
    # RFC 7677's example has this salt and this count.
    salt = b"W\xaf\xea\x04\xc2\xe1M\xc9\x92R\x85\x07Q\xa2\xfd\xd3"
    stored = module.verifier("pencil", salt)
    assert stored.startswith("SCRAM-SHA-256$4096:")
    assert module.matches("pencil", stored)
    for password, verifier in (
        ("pencils", stored),
        ("pencil", None),
        ("pencil", "md5" + 32 * "0"),
        ("pencil", ""),
    ):
        assert not module.matches(password, verifier)


def test_names_are_quoted() -> None:
    (role, database) = module.plan(module.Found(), 'a"b', "secret", "c d")
    assert role.statement.startswith('CREATE ROLE "a""b" LOGIN PASSWORD ')
    assert database.statement.startswith('CREATE DATABASE "c d" OWNER "a""b" ')
