"""A secret given to the program is found nowhere that it should not be."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.postgres import PASSWORD, Server, binary, free_port
from tests.support.process import ROTA, SINGLETONS, Hub, environment, run
from tests.support.raw import ask
from tests.support.settings import postgres_environ
from tests.support.wait import wait_for

TOKEN = "canary-token-3f9a2c"
SECRETS = (TOKEN, PASSWORD)


def leaks(text: str | bytes) -> list[str]:
    """Return the secrets that are in a text."""
    data = text if isinstance(text, bytes) else text.encode()
    return [secret for secret in SECRETS if secret.encode() in data]


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> dict[str, str]:
    """Give a cluster's environment with its secrets as credential files, and the most talkative logging."""
    directory = tmp_path_factory.mktemp("credentials")
    for name, secret in (("database-password", PASSWORD), ("server-metrics-token", TOKEN)):
        (directory / name).write_text(secret)
        (directory / name).chmod(0o400)
    data = tmp_path_factory.mktemp("data")
    given = dict(postgres_environ(data, postgres, postgres.new_schema(), ROTA_SERVER_LOG_LEVEL="debug"))
    del given["ROTA_DATABASE_PASSWORD"]
    return {**given, "CREDENTIALS_DIRECTORY": str(directory), "ROTA_BACKUPS_DESTINATION": str(data / "safe")}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, environ: dict[str, str]) -> Iterator[Hub]:
    process = Hub.start(tmp_path_factory.mktemp("log") / "log", environ, port=free_port()).wait()
    wait_for(lambda: len(process.leading()) == SINGLETONS)
    yield process
    process.kill()


def test_the_secrets_are_in_use(hub: Hub) -> None:
    """Else the tests below would find nothing for the wrong reason."""
    assert ask(hub.port or 0, "GET", "/metrics", f"Authorization: Bearer {TOKEN}").status == 200
    assert hub.health()["database"]["reachable"]


@pytest.mark.parametrize("path", ["/", "/health", "/health/process", "/version", "/metrics", "/nothing"])
@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_no_answer_holds_one(hub: Hub, path: str, accept: str) -> None:
    for authorisation in (f"Bearer {TOKEN}", f"Basic {TOKEN}", "Bearer wrong"):
        headers = (f"Authorization: {authorisation}", f"Accept: {accept}")
        answer = ask(hub.port or 0, "GET", path, *headers)
        assert leaks(answer.body) == []
        assert leaks(str(answer.headers)) == []


def test_logging_at_debug_holds_none(hub: Hub) -> None:
    ask(hub.port or 0, "GET", f"/{TOKEN}?token={TOKEN}", f"Authorization: Bearer {TOKEN}", f"Cookie: {TOKEN}")
    ask(hub.port or 0, "DELETE", "/metrics", f"Authorization: Bearer {TOKEN}")
    assert "leading task=" in hub.output()
    assert leaks(hub.output()) == []


def test_the_process_list_holds_none_even_while_a_backup_is_made(hub: Hub, environ: dict[str, str]) -> None:
    assert hub.process.poll() is None
    seen: set[bytes] = set()
    with subprocess.Popen(
        [*ROTA, "backup", "now"],
        env=environment(environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as backup:
        while backup.poll() is None:
            seen |= command_lines()
    assert backup.returncode == 0
    assert any(b"pg_dump" in line for line in seen), "the dump was not caught in the act"
    assert any(sys.executable.encode() in line and b"serve" in line for line in seen)
    assert leaks(b"\n".join(seen)) == []


def command_lines() -> set[bytes]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.add(path.read_bytes())
        except OSError:  # ended meanwhile
            continue
    return found


@pytest.mark.parametrize(
    "command",
    [["settings"], ["settings", "--json"], ["migrate"], ["backup", "list"], ["backup", "list", "--json"]],
)
def test_no_command_prints_one(environ: dict[str, str], command: list[str]) -> None:
    done = run(command, environ)
    assert done.returncode == 0, done.stderr
    assert leaks(done.stdout + done.stderr) == []


def test_no_error_prints_one(environ: dict[str, str]) -> None:
    address = environ["ROTA_DATABASE_URL"].replace("//rota@", f"//rota:{TOKEN}@")
    for wrong in (
        {"ROTA_DATABASE_URL": address.replace("/rota", "/nowhere")},
        {"ROTA_DATABASE_URL": address + "?nonsense=1"},
        {"ROTA_SERVER_METRICS_TOKEN": TOKEN, "ROTA_SERVER_ADDRESS": "wrong"},
    ):
        done = run(["backup", "now"], {**environ, **wrong})
        assert done.returncode != 0
        assert leaks(done.stdout + done.stderr) == []


def test_the_data_directory_holds_one_only_inside_backups(hub: Hub, environ: dict[str, str]) -> None:
    assert hub.process.poll() is None
    data = Path(environ["ROTA_SERVER_DATA"])
    for path in data.rglob("*"):
        if path.is_file() and not path.name.endswith(".tar.zst"):
            assert leaks(path.read_bytes()) == [], path


def test_the_database_holds_none(hub: Hub, environ: dict[str, str]) -> None:
    assert hub.health()["database"]["reachable"]
    done = subprocess.run(
        [
            binary("pg_dump"),
            f"--schema={environ['ROTA_DATABASE_SCHEMA']}",
            "--inserts",
            environ["ROTA_DATABASE_URL"],
        ],
        check=True,
        capture_output=True,
        env=environment({"PGPASSWORD": PASSWORD}),
    )
    assert b"schema_migrations" in done.stdout
    assert leaks(done.stdout) == []
