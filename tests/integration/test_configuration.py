"""Configuration through the program: any bytes arrive as they were sent, and lie nowhere in the clear."""

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import access
from tests.support.postgres import Server, free_port
from tests.support.process import ROTA, Hub, environment
from tests.support.raw import Answer, ask
from tests.support.settings import postgres_environ
from tests.support.tlog_files import entries_in
from tests.support.wait import wait_for

from rota.access.scopes import Scope
from rota.acts.act import read_act
from rota.configuration.vault import new_key

SENTINEL = b"sentinel-of-a-secret-9f3"
ANY = st.binary(max_size=65_536).filter(lambda data: b"\0" not in data)


class Asked:
    """A hub, and who asks it."""

    def __init__(self, hub: Hub, environ: dict[str, str]) -> None:
        assert hub.port is not None
        self.hub, self.port, self.environ = hub, hub.port, environ
        self.data = Path(environ["ROTA_SERVER_DATA"])
        self.token = access.token(environ, Scope.APPS_WRITE, Scope.APPS_READ)
        self.bearer = f"Authorization: Bearer {self.token}"

    def post(self, path: str, document: Any) -> Answer:
        """Send a document."""
        return access.send_json(self.port, "POST", f"/api/apps/{path}", document, self.bearer)

    def get(self, path: str) -> Any:
        """Return a document."""
        return json.loads(ask(self.port, "GET", f"/api/apps/{path}", self.bearer).body)

    def run(self, *argv: str, given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        """Run `rota …` with something on its standard input."""
        told = {"ROTA_URL": f"http://127.0.0.1:{self.port}", "ROTA_TOKEN": self.token}
        return subprocess.run(
            [*ROTA, *argv], env=environment(told), input=given, capture_output=True, check=False, timeout=60
        )

    def value(self, app: str, name: str) -> bytes:
        """Return a value as the API shows it."""
        answer = self.post(f"{app}/config/values", {"names": [name]})
        assert answer.status == 200, answer.body
        return base64.b64decode(json.loads(answer.body)["values"][name])


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    data, log = tmp_path_factory.mktemp("hub") / "data", tmp_path_factory.mktemp("log")
    port = free_port()
    if request.param == "sqlite":
        environ = {"ROTA_SERVER_DATA": str(data)}
        hubs = [Hub.start(log / "log", environ, port=port)]
    else:  # the web process has no key that opens
        server: Server = request.getfixturevalue("postgres")
        environ = dict(postgres_environ(data, server, server.new_schema()))
        worker = {**environ, "ROTA_CONFIGURATION_KEY": new_key()}
        hubs = [Hub.start(log / "log", environ, "--role", "web", port=port)]
        hubs.append(Hub.start(log / "worker", worker, "--role", "worker", port=free_port()))
    for hub in hubs:
        hub.wait()
    found = Asked(hubs[0], environ)
    wait_for(lambda: found.post("ready/config", {"set": {"A": ""}}).status == 200, 20)
    yield found
    for hub in hubs:
        hub.kill()


class TestBytes:
    def test_any_arrive_as_they_were_sent(self, asked: Asked) -> None:
        @given(ANY)
        @settings(max_examples=25, deadline=None)
        def arrives(value: bytes) -> None:
            answer = asked.post("bytes/config", {"set": {"V": base64.b64encode(value).decode()}})
            assert answer.status == 200, answer.body
            assert asked.value("bytes", "V") == value

        arrives()

    @pytest.mark.parametrize(
        "value", [b"", b"\n", b" x \n", bytes(range(1, 256)), b"\xff\xfe" * 32_768, "ä€\n".encode()]
    )
    def test_a_file_and_standard_input_are_taken_byte_for_byte(
        self, asked: Asked, tmp_path: Path, value: bytes
    ) -> None:
        (tmp_path / "value").write_bytes(value)
        for argv, sent in ((["--file", str(tmp_path / "value")], b""), ([], value)):
            done = asked.run("config", "set", "cli", "V", *argv, given=sent)
            assert done.returncode == 0, done.stderr
            assert asked.run("config", "get", "cli", "V").stdout == value

    def test_what_no_process_can_be_given_is_refused(self, asked: Asked) -> None:
        for value, expected in ((b"a\0b", b"NUL"), (b"x" * 65_537, b"65536 is the most")):
            done = asked.run("config", "set", "cli", "V", given=value)
            assert done.returncode == 1
            assert expected in done.stderr
        for name in ("PORT", "A-B", "1", "Ä"):
            assert asked.run("config", "set", "cli", name).returncode == 1


class TestCommands:
    def test_a_value_on_a_command_line_is_refused_with_the_remedy(self, asked: Asked) -> None:
        done = asked.run("config", "set", "cli", "TOKEN=secret")
        assert done.returncode == 2
        assert b"printf %s VALUE | rota config set cli TOKEN" in done.stderr
        assert b"secret" not in done.stderr

    def test_import_unset_and_the_list_of_names(self, asked: Asked, tmp_path: Path) -> None:
        (tmp_path / ".env").write_bytes(b"A=1\nB='two\nlines'\n")
        assert asked.run("config", "import", "many", str(tmp_path / ".env")).returncode == 0
        assert asked.value("many", "B") == b"two\nlines"
        assert asked.run("config", "import", "many", "--format", "json", given=b'{"C": "3"}').returncode == 0
        listed = asked.run("config", "get", "many").stdout.decode().split()
        assert [word for word in listed if len(word) == 1 and word.isalpha()] == ["A", "B", "C"]
        assert asked.run("config", "unset", "many", "A", "C").returncode == 0
        assert [each["name"] for each in asked.get("many/config")["names"]] == ["B"]
        done = asked.run("config", "unset", "many", "A")
        assert (done.returncode, b"has no value A" in done.stderr) == (1, True)

    def test_a_change_from_an_old_version_is_refused(self, asked: Asked) -> None:
        number = asked.get("ready/config")["number"]
        change = {"set": {"A": "MQ=="}, "expected": number}
        assert asked.post("ready/config", change).status == 200
        assert asked.post("ready/config", change).status == 409
        assert asked.get("ready/config")["number"] == number + 1

    def test_an_app_without_releases_has_nothing_to_go_back_to(self, asked: Asked) -> None:
        done = asked.run("rollback", "ready")
        assert (done.returncode, b"serves yet" in done.stderr) == (1, True)
        assert asked.run("rollback", "ready", "x").returncode == 2
        assert b"no release" in asked.run("releases", "ready").stdout
        assert asked.run("releases", "nothing").returncode == 1


def test_a_secret_is_nowhere_in_the_clear(asked: Asked, postgres: Server) -> None:
    assert asked.run("config", "set", "vault", "TOKEN", given=SENTINEL).returncode == 0
    assert asked.run("config", "get", "vault", "TOKEN").stdout == SENTINEL
    forms = (SENTINEL, base64.b64encode(SENTINEL), SENTINEL.hex().encode())
    places = [asked.data, asked.hub.log.parent]
    if "ROTA_DATABASE_SCHEMA" in asked.environ:
        places.append(postgres.directory)
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    files += list(Path("/proc").glob("[0-9]*/cmdline"))
    assert len(files) > 10
    for path in files:
        try:
            data = path.read_bytes()
        except OSError:
            continue  # a process that has ended
        assert not any(form in data for form in forms), path


def test_the_log_tells_names_and_random_ids(asked: Asked) -> None:
    assert asked.run("config", "set", "logged", "TOKEN", given=SENTINEL).returncode == 0
    assert asked.value("logged", "TOKEN") == SENTINEL
    acts = [read_act(entry) for entry in entries_in(asked.data / "tlog")]
    changed, shown = [act for act in acts if act.subject == "app:logged"]
    assert (changed.kind, shown.kind) == ("config.change", "config.read")
    assert list(changed.details["set"]) == ["TOKEN"]
    assert len(changed.details["set"]["TOKEN"]) == 16
    assert shown.details == {"names": ["TOKEN"], "number": 1}
