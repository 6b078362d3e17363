"""The command line, as a whole process: its help, its exit codes, and what it prints."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.access import bearer
from tests.support.postgres import PASSWORD, Server, free_port
from tests.support.process import ROTA, Hub, environment, run
from tests.support.raw import ask
from tests.support.settings import postgres_environ
from tests.support.wait import wait_for
from tools.reference import commands

from rota import __version__
from rota.access.scopes import Scope
from rota.cli import rota
from rota.errors import EXIT_CONFIG, EXIT_FAILED
from rota.settings.model import key_types
from rota.store.sqlite import SqliteDatabase

USAGE = 2
# What a command does with the files alone is the same on both kinds of database.
SQLITE = pytest.mark.parametrize("environ", ["sqlite"], indirect=True)
COMMANDS = [context.command_path.split()[1:] for context in commands(rota, "rota")]


@pytest.fixture(params=["sqlite", "postgresql"])
def environ(request: pytest.FixtureRequest, tmp_path: Path) -> Mapping[str, str]:
    """Give the environment of a hub on each kind of database."""
    if request.param == "sqlite":
        return {"ROTA_SERVER_DATA": str(tmp_path / "data")}
    server: Server = request.getfixturevalue("postgres")
    return postgres_environ(tmp_path / "data", server, server.new_schema())


class TestHelp:
    def test_of_the_whole_program(self) -> None:
        done = run(["--help"])
        assert done.returncode == 0
        for word in ("backup", "migrate", "serve", "settings", "78"):
            assert word in done.stdout
        assert done.stderr == ""

    @pytest.mark.parametrize("words", COMMANDS[1:], ids=" ".join)
    def test_of_a_command_reads_no_settings(self, words: list[str]) -> None:
        done = CliRunner().invoke(rota, [*words, "-h"], prog_name="rota", env={"ROTA_NO_SUCH": "setting"})
        assert done.exit_code == 0
        assert done.output.startswith(f"Usage: rota {' '.join(words)} ")

    def test_the_version(self) -> None:
        done = run(["--version"])
        assert (done.returncode, done.stdout) == (0, f"rota, version {__version__}\n")

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["nothing"], "No such command 'nothing'"),
            (["serve", "--nothing"], "No such option"),
            (["serve", "extra"], "Got unexpected extra argument"),
            (["settings", "--settings"], "Option '--settings' requires an argument"),
        ],
    )
    def test_a_wrong_command_line_is_told_from_a_failure(self, words: list[str], said: str) -> None:
        done = run(words)
        assert done.returncode == USAGE
        assert said in done.stderr
        assert done.stdout == ""


class TestSettings:
    def test_every_setting_is_printed_with_its_source(self, tmp_path: Path) -> None:
        file = tmp_path / "hub.toml"
        file.write_text('[server]\nname = "from-file"\n')
        environ = {"ROTA_BACKUPS_KEEP": "3", "ROTA_SERVER_METRICS_TOKEN": "canary"}
        done = run(["settings", "--settings", str(file), "--data", str(tmp_path)], environ)
        assert done.returncode == 0, done.stderr
        rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
        assert list(rows) == [f"{section}.{key}" for section, keys in key_types().items() for key in keys]
        assert rows["server.name"].split() == ['"from-file"', str(file)]
        assert rows["backups.keep"].split() == ["3", "ROTA_BACKUPS_KEEP"]
        assert rows["server.data"].split() == [f'"{tmp_path}"', "--data"]
        assert rows["server.metrics_token"].split() == ['"[redacted]"', "ROTA_SERVER_METRICS_TOKEN"]
        assert rows["backups.schedule"].split() == ['"03:15"', "default"]

    def test_for_programs_it_is_json(self, tmp_path: Path) -> None:
        done = run(["settings", "--json", "--data", str(tmp_path)])
        assert json.loads(done.stdout)["server.data"] == {"value": str(tmp_path), "source": "--data"}

    def test_it_makes_nothing(self, tmp_path: Path) -> None:
        assert run(["settings", "--data", str(tmp_path / "data")]).returncode == 0
        assert list(tmp_path.iterdir()) == []

    def test_wrong_ones_are_listed(self) -> None:
        done = run(["settings"], {"ROTA_BACKUPS_KEEP": "none", "ROTA_SERVER_PRIMARY": "maybe"})
        assert done.returncode == EXIT_CONFIG
        assert done.stdout == ""
        assert [line.split(" ")[0] for line in done.stderr.removeprefix("rota: ").splitlines()] == [
            "backups.keep",
            "server.primary",
        ]

    def test_a_settings_file_that_is_not_there(self, tmp_path: Path) -> None:
        done = run(["settings", "--settings", str(tmp_path / "none.toml")])
        assert done.returncode == EXIT_CONFIG
        assert done.stderr == f"rota: {tmp_path / 'none.toml'}: cannot be read: No such file or directory\n"


def test_migrate_makes_the_schema_once_and_says_which(environ: Mapping[str, str]) -> None:
    first, second = run(["migrate"], environ), run(["migrate"], environ)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    assert re.fullmatch(r"(SQLite|PostgreSQL) [\d.]+: schema \d+\n", first.stdout)
    assert second.stdout == first.stdout


def test_what_a_command_makes_is_for_its_own_user_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    assert run(["migrate", "--data", str(data)]).returncode == 0
    assert {path.name: path.stat().st_mode & 0o077 for path in data.iterdir()} == {"rota.db": 0}


def test_a_database_that_is_closed_leaves_one_file(tmp_path: Path) -> None:
    async def open_and_close(directory: Path) -> None:
        database = SqliteDatabase(directory / "rota.db", "test")
        await database.open()
        await database.pulse()
        await database.close()

    # Two connections that close at the same time need not meet: it takes some attempts.
    for attempt in range(30):
        directory = tmp_path / str(attempt)
        asyncio.run(open_and_close(directory))
        assert [each.name for each in directory.iterdir()] == ["rota.db"]


class TestBackup:
    def test_made_listed_and_verified(self, tmp_path: Path, environ: Mapping[str, str]) -> None:
        assert run(["migrate"], environ).returncode == 0
        before = run(["backup", "list"], environ)
        assert before.stdout == "No backup yet: `rota backup now` makes one.\n"

        made = run(["backup", "now"], environ)
        assert made.returncode == 0, made.stderr
        found = re.fullmatch(r"(\S+)  (\d+) bytes  blake3 ([0-9a-f]{64})\n", made.stdout)
        assert found is not None, made.stdout
        path = Path(found[1])
        assert path.parent == tmp_path / "data" / "backups"
        assert path.stat().st_size == int(found[2])
        assert path.stat().st_mode & 0o777 == 0o600
        assert PASSWORD not in made.stdout + made.stderr

        listed = run(["backup", "list"], environ)
        assert listed.stdout.split() == [path.name, "complete", found[2]]
        (row,) = json.loads(run(["backup", "list", "--json"], environ).stdout)
        assert (row["name"], row["state"], row["digest"]) == (path.name, "complete", found[3])

        verified = run(["backup", "verify"], environ)
        assert verified.returncode == 0, verified.stderr
        assert re.fullmatch(
            rf"{re.escape(path.name)}  whole: (sqlite|postgresql), schema \d+, \d+ files\n", verified.stdout
        )
        assert run(["backup", "verify", path.name], environ).stdout == verified.stdout

    @pytest.mark.parametrize(
        "number", [signal.SIGTERM, signal.SIGHUP], ids=["told to stop", "the terminal closes"]
    )
    def test_one_that_is_stopped_tidies_up(
        self, tmp_path: Path, postgres: Server, number: signal.Signals
    ) -> None:
        endless = tmp_path / "bin" / "pg_dump"
        endless.parent.mkdir()
        endless.write_text(f"#!{sys.executable}\nimport signal\nsignal.pause()\n")
        endless.chmod(0o700)
        environ = postgres_environ(tmp_path / "data", postgres, postgres.new_schema())
        backups = tmp_path / "data" / "backups"
        command = subprocess.Popen(
            [*ROTA, "backup", "now"], env=environment({**environ, "PATH": str(endless.parent)})
        )
        wait_for(lambda: list(backups.glob(".*.d")))
        command.send_signal(number)
        assert command.wait(timeout=10) == 130
        assert list(backups.iterdir()) == []
        (row,) = json.loads(run(["backup", "list", "--json"], environ).stdout)
        assert (row["state"], row["error"]) == ("failed", "interrupted")

    @SQLITE
    def test_damage_is_found(self, environ: Mapping[str, str]) -> None:
        assert run(["migrate"], environ).returncode == 0
        path = Path(run(["backup", "now"], environ).stdout.split()[0])
        whole = bytearray(path.read_bytes())
        whole[len(whole) // 2] ^= 0xFF
        path.write_bytes(whole)
        done = run(["backup", "verify", path.name], environ)
        assert done.returncode == EXIT_FAILED
        assert done.stderr.startswith(f"rota: {path}")
        assert "damaged" in done.stderr
        assert "Traceback" not in done.stderr

    @SQLITE
    def test_damage_of_one_does_not_hide_the_others(self, environ: Mapping[str, str]) -> None:
        assert run(["migrate"], environ).returncode == 0
        made = [Path(run(["backup", "now"], environ).stdout.split()[0]) for _ in range(3)]
        for path in made[:2]:
            path.write_bytes(path.read_bytes()[:-40])
        done = run(["backup", "verify"], environ)
        assert done.returncode == EXIT_FAILED
        assert done.stdout.startswith(f"{made[2].name}  whole: ")
        assert all(str(path) in done.stderr for path in made[:2])
        assert str(made[2]) not in done.stderr

    @SQLITE
    def test_one_that_is_missing_is_said_to_be(self, environ: Mapping[str, str]) -> None:
        assert run(["migrate"], environ).returncode == 0
        path = Path(run(["backup", "now"], environ).stdout.split()[0])
        path.unlink()
        assert run(["backup", "list"], environ).stdout.split()[1] == "missing"
        done = run(["backup", "verify", path.name], environ)
        assert done.returncode == EXIT_FAILED
        assert "holds no backup" in done.stderr
        assert "holds no backup: `rota backup now` makes one" in run(["backup", "verify"], environ).stderr

    def test_the_commands_themselves_need_no_hub(self, tmp_path: Path) -> None:
        """Nor does one that serves hinder them: a backup is made while it works."""
        environ = {"ROTA_SERVER_DATA": str(tmp_path / "data")}
        hub = Hub.start(tmp_path / "log", environ, port=free_port())
        try:
            hub.wait()
            made = run(["backup", "now"], environ)
            assert made.returncode == 0, made.stderr
            page = ask(hub.port or 0, "GET", "/", bearer(environ, Scope.HUB_READ)).text
            assert Path(made.stdout.split()[0]).name in page
        finally:
            hub.kill()


def test_no_settings_error_shows_a_traceback(tmp_path: Path) -> None:
    for given in (
        {"ROTA_DATABASE_URL": "postgresql://[::1"},
        {"ROTA_DATABASE_URL": "postgresql://rota:pa%ss@h/d"},
        {"ROTA_SERVER_DATA": ""},
        {"CREDENTIALS_DIRECTORY": str(tmp_path / "nowhere")},
    ):
        done = run(["migrate"], given)
        assert done.returncode == EXIT_CONFIG, given
        assert done.stderr.startswith("rota: ")
        assert "Traceback" not in done.stderr
        assert "pa%ss" not in done.stderr


@pytest.mark.parametrize("command", [("admin", "list"), ("backup", "list"), ("backup", "now")])
def test_a_command_in_the_wrong_directory_begins_no_hub_there(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    said = run([*command, "--data", str(tmp_path / "elsewhere")])
    assert said.returncode == 78
    assert "there is no hub in" in said.stderr
    assert "--data" in said.stderr
    assert list(tmp_path.iterdir()) == []
