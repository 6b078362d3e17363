"""The command that dumps a hub's schema."""

from pathlib import Path

from tests.support.settings import NO_SETTINGS

from rota.backups.pg_dump import dump_command
from rota.settings import Settings, load

CANARY = "canary-77f0"


def settings(**environ: str) -> Settings:
    given = {
        "ROTA_DATABASE_URL": f"postgresql://rota:{CANARY}@db.example:5433/hub?sslmode=require&sslpassword={CANARY}",
        "ROTA_DATABASE_SCHEMA": "one",
        "ROTA_DATABASE_PASSWORD": CANARY,
        **environ,
    }
    return load(file=NO_SETTINGS, environ=given).settings


def test_no_password_is_in_the_command() -> None:
    assert not [word for word in dump_command(settings(), Path("/x")) if CANARY in word]


def test_it_names_the_hubs_own_schema_and_asks_for_nothing() -> None:
    command = dump_command(settings(), Path("/x/rota.pgdump"))
    assert command[0] == "pg_dump"
    assert {"--schema=one", "--file=/x/rota.pgdump", "--no-password", "--format=custom"} <= set(command)
    target = next(word for word in command if word.startswith("--dbname="))
    for part in ("user=rota", "host=db.example", "port=5433", "dbname=hub", "sslmode=require"):
        assert part in target


def test_it_goes_past_a_pooler() -> None:
    direct = settings(ROTA_DATABASE_DIRECT_URL=f"postgresql://rota:{CANARY}@direct.example/hub")
    command = dump_command(direct, Path("/x"))
    assert "host=direct.example" in " ".join(command)
    assert not [word for word in command if CANARY in word]
