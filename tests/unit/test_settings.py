"""Where settings come from, and which source wins."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.settings import NO_SETTINGS

from rota.cli.options import settings_from
from rota.errors import EXIT_CONFIG, SettingsError
from rota.roles import EVERY_ROLE, Role
from rota.settings import Loaded, load

POSTGRES = {"ROTA_DATABASE_URL": "postgresql://rota@db.example:5432/rota", "ROTA_DATABASE_SCHEMA": "rota"}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "hub.toml"


def loaded(file: Path, text: str = "", environ: Mapping[str, str] = {}, **options: str) -> Loaded:
    file.write_text(text)
    return load(file=file, environ=environ, options={f"server.{key}": text for key, text in options.items()})


def refused(file: Path, text: str = "", environ: Mapping[str, str] = {}) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        loaded(file, text, environ)
    assert caught.value.exit_code == EXIT_CONFIG
    return caught.value.problems


def test_without_any_source_the_packaged_defaults_are_in_force() -> None:
    given = load(file=NO_SETTINGS, environ={})
    assert set(given.sources.values()) == {"default"}
    assert given.settings.roles == EVERY_ROLE
    assert given.settings.sqlite
    assert given.settings.address == "127.0.0.1:8420"


def test_each_source_wins_over_the_one_before(written: Path, tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    token = credentials / "server-metrics-token"
    text = '[server]\nname = "from-file"\nmetrics_token = "from-file"\ndata = "/from/file"\n'
    environ = {"CREDENTIALS_DIRECTORY": str(credentials)}

    given = loaded(written, text, environ)
    assert given.settings.server.metrics_token.reveal() == "from-file"
    assert given.sources["server.name"] == str(written)

    token.write_text("from-credential\n")
    token.chmod(0o600)
    given = loaded(written, text, environ)
    assert given.settings.server.metrics_token.reveal() == "from-credential"
    assert given.sources["server.metrics_token"] == "credential server-metrics-token"

    environ |= {"ROTA_SERVER_METRICS_TOKEN": "from-env", "ROTA_SERVER_DATA": "/from/env"}
    given = loaded(written, text, environ)
    assert given.settings.server.metrics_token.reveal() == "from-env"
    assert given.sources["server.metrics_token"] == "ROTA_SERVER_METRICS_TOKEN"
    assert given.settings.server.data == Path("/from/env")

    given = loaded(written, text, environ, data="/from/option")
    assert given.settings.server.data == Path("/from/option")
    assert given.sources["server.data"] == "--data"
    assert given.settings.server.name == "from-file"


def test_the_systems_file_is_read_where_there_is_one(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["rota.settings.load"], "SYSTEM_FILE", written)
    assert load(environ={}).settings.server.name != "of-the-system"
    written.write_text('[server]\nname = "of-the-system"\n')
    assert load(environ={}).settings.server.name == "of-the-system"
    other = tmp_path / "other.toml"
    other.write_text("")
    assert load(file=other, environ={}).settings.server.name != "of-the-system"


def test_a_settings_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"missing\.toml: cannot be read"):
        load(file=tmp_path / "missing.toml", environ={})


class TestRoles:
    FILE = '[server]\nroles = ["worker"]\n'

    def test_the_file_names_them(self, written: Path) -> None:
        assert loaded(written, self.FILE).settings.roles == {Role.WORKER}

    def test_the_environment_wins(self, written: Path) -> None:
        given = loaded(written, self.FILE, {"ROTA_SERVER_ROLES": "web"})
        assert given.settings.roles == {Role.WEB}

    @pytest.mark.parametrize("names", ["", "  ", ",", " , ,"])
    def test_a_variable_that_names_none_overrides_the_file_and_means_every_role(
        self, written: Path, names: str
    ) -> None:
        given = loaded(written, self.FILE, {"ROTA_SERVER_ROLES": names})
        assert given.settings.roles == EVERY_ROLE
        assert given.sources["server.roles"] == "ROTA_SERVER_ROLES"

    def test_the_option_wins_over_all(self, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        written.write_text(self.FILE)
        monkeypatch.setenv("ROTA_SERVER_ROLES", "web")
        given = settings_from(written, None, "worker, WORKER")
        assert given.settings.roles == {Role.WORKER}
        assert given.sources["server.roles"] == "--role"

    @pytest.mark.parametrize("names", ["", "  ", ",", " , "])
    def test_an_empty_option_overrides_nothing(self, written: Path, names: str) -> None:
        written.write_text(self.FILE)
        given = settings_from(written, None, names)
        assert given.settings.roles == {Role.WORKER}
        assert given.sources["server.roles"] == str(written)

    def test_an_unknown_one_names_its_source_in_each(
        self, written: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said = 'unknown role "edge": the roles are web and worker'
        assert refused(written, '[server]\nroles = ["edge"]\n') == [f"server.roles ({written}): {said}"]
        assert refused(written, self.FILE, {"ROTA_SERVER_ROLES": "web,edge"}) == [
            f"server.roles (ROTA_SERVER_ROLES): {said}"
        ]
        monkeypatch.delenv("ROTA_SERVER_ROLES", raising=False)
        written.write_text(self.FILE)
        with pytest.raises(SettingsError) as caught:
            settings_from(written, None, "edge")
        assert caught.value.problems == [f"server.roles (--role): {said}"]


class TestUnknown:
    @pytest.mark.parametrize(
        ("text", "environ", "problem"),
        [
            ("[sever]\n", {}, '[sever] (FILE): unknown section; did you mean "server"?'),
            ("[zzz]\na = 1\n", {}, "[zzz] (FILE): unknown section; the known ones are "),
            ('[server]\nadress = ""\n', {}, 'server.adress (FILE): unknown key; did you mean "address"?'),
            ("[backups]\nzzz = 1\n", {}, "backups.zzz (FILE): unknown key; the known ones are "),
            ("", {"ROTA_SERVER_ROLE": "web"}, "server.role (ROTA_SERVER_ROLE): unknown key; did you mean"),
            ("", {"ROTA_SERVER": "web"}, "server. (ROTA_SERVER): unknown key; the known ones are "),
            (
                "",
                {"ROTA_DATABSE_URL": "x"},
                '[databse] (ROTA_DATABSE_URL): unknown section; did you mean "da',
            ),
        ],
    )
    def test_names_are_answered_with_what_was_meant(
        self, written: Path, text: str, environ: dict[str, str], problem: str
    ) -> None:
        problems = refused(written, text, environ)
        assert len(problems) == 1
        assert problems[0].replace(str(written), "FILE").startswith(problem)

    def test_an_unknown_values_own_text_is_not_repeated(self, written: Path) -> None:
        said = "\n".join(refused(written, '[server]\nmetric_token = "canary"\n', {"ROTA_X_Y": "canary"}))
        assert "canary" not in said

    def test_the_labs_variables_are_not_settings(self, written: Path) -> None:
        assert loaded(written, "", {"ROTA_LAB_ROOT": "/x", "PATH": "/bin"}).settings.sqlite


class TestWrong:
    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ('[server]\nroles = "web"\n', 'server.roles (FILE): must be a list of strings, as ["web", "wor'),
            ('[server]\nprimary = "yes"\n', "server.primary (FILE): must be true or false without quotes"),
            ('[database]\npool_size = "4"\n', "database.pool_size (FILE): must be a whole number without"),
            ("[server]\nname = 5\n", "server.name (FILE): must be a string in quotes, not 5"),
            ("[server]\nmetrics_token = 4711\n", "server.metrics_token (FILE): must be a string in quotes"),
            ('[server]\naddress = "8420"\n', 'server.address (FILE): "8420" is not HOST:PORT, as 127.0.0.1'),
            ('[server]\naddress = "h:0"\n', 'server.address (FILE): "h:0" is not HOST:PORT'),
            ('[server]\naddress = "h:65536"\n', 'server.address (FILE): "h:65536" is not HOST:PORT'),
            ('[server]\naddress = "::1:80"\n', 'server.address (FILE): "::1:80" is not HOST:PORT'),
            ('[server]\nlog_level = "loud"\n', 'server.log_level (FILE): "loud" is none of debug, info'),
            ('[maintenance]\nschedule = "24:00"\n', 'maintenance.schedule (FILE): "24:00" is not HH:MM in'),
            ('[backups]\nschedule = "3:15"\n', 'backups.schedule (FILE): "3:15" is not HH:MM in UTC, as 03'),
            ("[maintenance]\nkeep_days = 0\n", "maintenance.keep_days (FILE): 0 is not between 1 and 36500"),
            ("[maintenance]\nkeep_days = 36501\n", "maintenance.keep_days (FILE): 36501 is not between"),
            ("[backups]\nkeep = 0\n", "backups.keep (FILE): 0 would keep no backup: set 1 or more"),
            ("name = 1\n", "name (FILE): stands outside a section: put it below [server] or another"),
            ("[server\n", "FILE: not TOML: "),
        ],
    )
    def test_values_are_refused_by_key_and_source(self, written: Path, text: str, problem: str) -> None:
        problems = refused(written, text)
        assert len(problems) == 1
        assert problems[0].replace(str(written), "FILE").startswith(problem)

    @pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:8420", "hub.example:65535", "localhost:80"])
    def test_good_addresses_are_taken(self, written: Path, address: str) -> None:
        assert loaded(written, f'[server]\naddress = "{address}"\n').settings.address == address

    def test_a_file_that_is_no_text_is_refused(self, written: Path) -> None:
        written.write_bytes(b"\xff\xfe")
        with pytest.raises(SettingsError, match="cannot be read"):
            load(file=written, environ={})

    def test_a_file_that_nests_without_end_is_refused(self, written: Path) -> None:
        assert "not TOML" in refused(written, "[server]\nroles = " + "[" * 20_000)[0]

    def test_several_problems_are_reported_at_once(self, written: Path) -> None:
        text = '[server]\nadress = ""\nprimary = 1\n[database]\npool_size = "x"\n'
        problems = refused(written, text, {"ROTA_BACKUPS_KEEP": "many", "ROTA_NOPE": ""})
        assert len(problems) == 5
        text = '[server]\naddress = "x"\nlog_level = "y"\n[backups]\nkeep = 0\nschedule = "z"\n'
        assert len(refused(written, text)) == 4


class TestCombinations:
    @pytest.mark.parametrize(
        "url", ["sqlite:rota.db", "sqlite://rota.db", "sqlite:///e/x.db", "sqlite::memory:"]
    )
    def test_sqlites_file_is_named_by_its_whole_path(self, written: Path, url: str) -> None:
        (found,) = refused(written, environ={"ROTA_DATABASE_URL": url})
        assert found.startswith(f'database.url (ROTA_DATABASE_URL): "{url}" must be "sqlite:"')

    def test_sqlite_has_no_schema_pooler_nor_password(self, written: Path) -> None:
        text = '[database]\nschema = "rota"\ndirect_url = "postgresql://h/d"\npassword = "canary"\n'
        problems = refused(written, text)
        assert [problem.split()[0] for problem in problems] == [
            "database.schema",
            "database.direct_url",
            "database.password",
        ]
        assert all("database.url says SQLite: take it away, or set the url" in line for line in problems)
        assert "canary" not in "".join(problems)

    def test_sqlite_is_the_primary_whether_it_says_so_or_not(self, written: Path) -> None:
        assert loaded(written).settings.server.primary
        problems = refused(written, "[server]\nprimary = false\n")
        assert problems[0].startswith(f"server.primary ({written}): false, and database.url says SQLite")

    def test_postgresql_needs_a_schema(self, written: Path) -> None:
        environ = {"ROTA_DATABASE_URL": POSTGRES["ROTA_DATABASE_URL"]}
        problems = refused(written, "", environ)
        said = 'PostgreSQL needs a schema of its own for this hub: set it, for example to "rota"'
        assert problems == [f"database.schema (default): {said}"]

    @pytest.mark.parametrize("schema", ["Rota", "pg_rota", "1rota", "ro ta", 'ro"ta', "r" * 64])
    def test_a_schema_must_mean_the_same_quoted_and_unquoted(self, written: Path, schema: str) -> None:
        problems = refused(written, "", POSTGRES | {"ROTA_DATABASE_SCHEMA": schema})
        assert problems[0].startswith("database.schema (ROTA_DATABASE_SCHEMA): ")

    @pytest.mark.parametrize(
        ("url", "reason"),
        [
            ("mysql://h/d", 'must begin with "sqlite:" or "postgresql://"'),
            ("", 'must begin with "sqlite:" or "postgresql://"'),
            ("postgresql://rota@h", "names no database: write postgresql://USER@HOST:PORT/NAME"),
            ("postgresql://[::1/d", "is not an address"),
            ("postgresql://rota:can%ary@h/d", "is not an address"),
            ("postgresql://rota@h/d?sslmod=require", "is not an address"),
        ],
    )
    def test_an_address_that_cannot_be_used_is_refused(self, written: Path, url: str, reason: str) -> None:
        problems = refused(written, "", POSTGRES | {"ROTA_DATABASE_URL": url})
        assert problems[0].startswith(f"database.url (ROTA_DATABASE_URL): {reason}")
        assert "can%ary" not in "".join(problems)

    def test_a_direct_address_is_checked_as_the_other(self, written: Path) -> None:
        problems = refused(written, "", POSTGRES | {"ROTA_DATABASE_DIRECT_URL": "postgresql://rota@h"})
        assert problems[0].startswith("database.direct_url (ROTA_DATABASE_DIRECT_URL): names no database")

    @pytest.mark.parametrize("size", ["0", "101", "-1"])
    def test_a_pool_has_bounds(self, written: Path, size: str) -> None:
        problems = refused(written, "", POSTGRES | {"ROTA_DATABASE_POOL_SIZE": size})
        assert problems == [f"database.pool_size (ROTA_DATABASE_POOL_SIZE): {size} is not between 1 and 100"]

    def test_a_good_cluster_is_taken(self, written: Path) -> None:
        settings = loaded(written, "", POSTGRES | {"ROTA_SERVER_PRIMARY": "true"}).settings
        assert not settings.sqlite
        assert settings.server.primary


class TestDerived:
    def test_only_a_worker_alone_serves_nothing_by_itself(self, written: Path) -> None:
        assert loaded(written, "", {"ROTA_SERVER_ROLES": "worker"}).settings.address == ""
        assert loaded(written, "", {"ROTA_SERVER_ROLES": "web"}).settings.address == "127.0.0.1:8420"
        environ = {"ROTA_SERVER_ROLES": "worker", "ROTA_SERVER_ADDRESS": "[::]:9"}
        assert loaded(written, "", environ).settings.address == "[::]:9"

    def test_files_lie_in_the_data_directory_unless_told_otherwise(self, written: Path) -> None:
        settings = loaded(written, "", {"ROTA_SERVER_DATA": "/d"}).settings
        assert settings.sqlite_path == Path("/d/rota.db")
        assert settings.keys_directory == Path("/d/keys")
        assert settings.backup_directory == Path("/d/backups")
        environ = {"ROTA_DATABASE_URL": "sqlite:/e/x.db", "ROTA_BACKUPS_DESTINATION": "/f"}
        settings = loaded(written, "", environ).settings
        assert settings.sqlite_path == Path("/e/x.db")
        assert settings.backup_directory == Path("/f")

    def test_the_name_is_the_hosts_unless_told_otherwise(
        self, written: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("socket.gethostname", lambda: "this-host")
        assert loaded(written).settings.name == "this-host"
        assert loaded(written, '[server]\nname = "mine"\n').settings.name == "mine"

    def test_settings_are_frozen(self, written: Path) -> None:
        settings = loaded(written).settings
        with pytest.raises(AttributeError):
            settings.server.name = "other"  # type: ignore[misc]


def test_what_commands_are_told_by_is_no_setting() -> None:
    """A shell that has ROTA_URL for `rota apps` may also run `rota settings` and `rota backup`."""
    environ = dict.fromkeys(("ROTA_URL", "ROTA_TOKEN", "ROTA_CA", "ROTA_CONTEXT", "ROTA_FAILPOINTS"), "x")
    assert load(file=NO_SETTINGS, environ=environ).settings.server.data
