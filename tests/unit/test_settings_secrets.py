"""Secrets in the settings: their files, and that they are shown nowhere."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.settings import NO_SETTINGS

from rota.cli import rota
from rota.errors import EXIT_CONFIG, ConfigurationError, KeyFileError, SettingsError
from rota.settings import Loaded, load
from rota.settings.describe import describe, secrets_of, without_password
from rota.settings.load import read_key_file

CANARY = "canary-51ac"
URL = f"postgresql://rota:{CANARY}@db.example:5432/rota?application_name=x&password={CANARY}&sslpassword={CANARY}"
ENVIRON = {
    "ROTA_DATABASE_URL": URL,
    "ROTA_DATABASE_DIRECT_URL": URL,
    "ROTA_DATABASE_SCHEMA": "rota",
    "ROTA_DATABASE_PASSWORD": CANARY,
    "ROTA_SERVER_METRICS_TOKEN": CANARY,
}


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    directory = tmp_path / "credentials"
    directory.mkdir()
    return directory


def put(directory: Path, name: str, text: str, mode: int = 0o600) -> Path:
    path = directory / name
    path.write_text(text)
    path.chmod(mode)
    return path


def read(directory: Path) -> Loaded:
    return load(file=NO_SETTINGS, environ={"CREDENTIALS_DIRECTORY": str(directory)})


class TestKeyFiles:
    def test_the_last_line_end_is_not_part_of_the_secret(self, credentials: Path) -> None:
        assert read_key_file(put(credentials, "k", "one\ntwo\n\n")) == "one\ntwo\n"

    @pytest.mark.parametrize("text", ["", "\n"])
    def test_an_empty_one_is_refused(self, credentials: Path, text: str) -> None:
        put(credentials, "server-metrics-token", text)
        with pytest.raises(KeyFileError, match="server-metrics-token: is empty: write the secret into it"):
            read(credentials)

    @pytest.mark.parametrize("mode", [0o604, 0o602, 0o601, 0o620, 0o610, 0o644, 0o666])
    def test_one_that_lets_others_in_is_refused(self, credentials: Path, mode: int) -> None:
        path = put(credentials, "server-metrics-token", CANARY, mode)
        with pytest.raises(KeyFileError) as caught:
            read(credentials)
        assert str(caught.value) == (
            f"key file {path}: mode {mode:04o} lets other users in: chmod 0600 {path}"
        )
        assert caught.value.exit_code == EXIT_CONFIG

    @pytest.mark.parametrize("mode", [0o400, 0o600, 0o440, 0o640])
    def test_one_for_its_owner_or_as_systemd_passes_it_is_taken(self, credentials: Path, mode: int) -> None:
        put(credentials, "server-metrics-token", CANARY, mode)
        assert read(credentials).settings.server.metrics_token.reveal() == CANARY

    @pytest.mark.parametrize("spoil", ["missing", "directory", "bytes"])
    def test_one_that_cannot_be_read_is_refused(self, credentials: Path, spoil: str) -> None:
        path = credentials / "server-metrics-token"
        if spoil == "directory":
            path.mkdir()
        elif spoil == "bytes":
            path.write_bytes(b"\xff")
        with pytest.raises(KeyFileError, match="cannot be read"):
            read_key_file(path)

    def test_a_dangling_link_is_not_an_absent_secret(self, credentials: Path) -> None:
        (credentials / "server-metrics-token").symlink_to("nowhere")
        with pytest.raises(KeyFileError, match="cannot be read"):
            read(credentials)

    def test_a_directory_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="CREDENTIALS_DIRECTORY"):
            read(tmp_path / "nowhere")

    def test_a_misspelt_one_is_answered_with_what_was_meant(self, credentials: Path) -> None:
        put(credentials, "server-metric-token", CANARY)
        with pytest.raises(SettingsError) as caught:
            read(credentials)
        assert caught.value.problems == [
            'credential server-metric-token: names no secret; did you mean "server-metrics-token"?'
        ]

    def test_a_setting_that_is_no_secret_has_no_credential(self, credentials: Path) -> None:
        put(credentials, "server-name", "x")
        with pytest.raises(SettingsError, match="credential server-name: names no secret"):
            read(credentials)


class TestNeverShown:
    def test_not_by_the_settings_themselves(self) -> None:
        settings = load(
            file=NO_SETTINGS, environ={**ENVIRON, "ROTA_DATABASE_URL": "postgresql://h/d"}
        ).settings
        text = f"{settings.server!r} {settings.database.password} {secrets_of(settings)}"
        assert CANARY not in text
        assert "[redacted]" in text

    def test_not_by_their_description(self) -> None:
        described = describe(load(file=NO_SETTINGS, environ=ENVIRON).settings)
        assert CANARY not in json.dumps(described)
        assert described["database.password"] == described["server.metrics_token"] == "[redacted]"
        assert described["database.url"].startswith("postgresql://rota:[redacted]@db.example:5432/rota?")

    @pytest.mark.parametrize("options", [[], ["--json"]])
    def test_not_by_the_command(self, options: list[str]) -> None:
        done = CliRunner().invoke(rota, ["settings", "--settings", str(NO_SETTINGS), *options], env=ENVIRON)
        assert done.exit_code == 0, done.output
        assert CANARY not in done.output
        assert "[redacted]" in done.output
        assert "ROTA_DATABASE_PASSWORD" in done.output

    def test_not_by_the_error_for_a_key_beside_it(self) -> None:
        with pytest.raises(SettingsError) as caught:
            load(file=NO_SETTINGS, environ={**ENVIRON, "ROTA_DATABASE_SCHEMA": "Not Good"})
        assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://h/d", "postgresql://h/d"),
        ("postgresql://u@h:1/d", "postgresql://u@h:1/d"),
        ("postgresql://u:p@h:1/d", "postgresql://u:[redacted]@h:1/d"),
        ("postgresql://u:p@q@h/d", "postgresql://u:[redacted]@h/d"),
        ("postgresql://u:p?q/r@h/d", "postgresql://u:[redacted]@h/d"),
        ("postgresql://:p@h/d", "postgresql://:[redacted]@h/d"),
        ("postgresql://u@h/d?sslmode=require", "postgresql://u@h/d?sslmode=require"),
        ("postgresql://u@h/d?password=p&user=u", "postgresql://u@h/d?password=[redacted]&user=u"),
        ("postgresql://u@h/d?passw%6Frd=p", "postgresql://u@h/d?passw%6Frd=[redacted]"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_the_secrets_that_are_set_go_into_backups_by_their_credentials_names() -> None:
    assert secrets_of(load(file=NO_SETTINGS, environ={}).settings) == {}
    given = load(file=NO_SETTINGS, environ=ENVIRON).settings
    assert {name: secret.reveal() for name, secret in secrets_of(given).items()} == {
        "database-password": CANARY,
        "server-metrics-token": CANARY,
    }
