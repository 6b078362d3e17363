"""An app on one machine: what was set, by whatever way, is what its process finds, byte for byte."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import access
from tests.support.postgres import free_port
from tests.support.process import ROTA, Hub, environment
from tests.support.raw import ask
from tests.support.wait import wait_for

from rota.access.scopes import Scope

ADDRESS = f"127.10.{os.getpid() // 200 % 200}.{os.getpid() % 200 + 1}"
EXAMPLES = Path(__file__).parents[2] / "examples"
ANY = st.binary(max_size=65_536).filter(lambda data: b"\0" not in data)
HOSTILE = {
    "EMPTY": b"",
    "LINES": b"\n a\r\n\tb \n",
    "EVERY": bytes(range(1, 256)),
    "LONG": b"\xff'\"$`" * 13_107,
    "TEMPLATE": b"{{ lookup('pipe', 'touch /tmp/x') }} $(id) ${HOME} %n",
}


class Machine:
    """A hub that is its own server."""

    def __init__(self, hub: Hub, token: str) -> None:
        assert hub.port is not None
        self.hub, self.port, self.token = hub, hub.port, token
        self.bearer = f"Authorization: Bearer {token}"

    def ready(self) -> "Machine":
        """Wait until it is its own server, and deploy the app."""
        wait_for(lambda: [each["state"] for each in self.get("/api/servers")["servers"]] == ["enrolled"], 30)
        self.run("deploy", "shop", str(EXAMPLES / "static"))
        wait_for(self.settled, 30)
        return self

    def run(self, *argv: str, given: bytes = b"") -> str:
        """Run `rota …` with something on its standard input; return what it says."""
        told = {"ROTA_URL": f"http://127.0.0.1:{self.port}", "ROTA_TOKEN": self.token}
        done = subprocess.run(
            [*ROTA, *argv], env=environment(told), input=given, capture_output=True, check=False, timeout=90
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.decode()

    def get(self, path: str) -> Any:
        """Return a document."""
        return json.loads(ask(self.port, "GET", path, self.bearer).body)

    def set_(self, values: Mapping[str, bytes]) -> None:
        """Set values over the API, all in one change."""
        told = {name: base64.b64encode(value).decode() for name, value in values.items()}
        answer = access.send_json(self.port, "POST", "/api/apps/shop/config", {"set": told}, self.bearer)
        assert answer.status == 200, answer.body

    def settled(self) -> bool:
        """Tell whether no deploy is under way."""
        return not any(each["deploy"] for each in self.get("/api/apps")["apps"])

    def found(self, mark: str) -> dict[str, bytes]:
        """Return the environment of the process in which MARK is this, {} while there is none."""
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                data = path.read_bytes()
            except OSError:
                continue
            pairs = [each.partition(b"=") for each in data.split(b"\0")]
            values = {name.decode("latin-1"): value for name, _, value in pairs}
            if values.get("MARK") == mark.encode() and "PORT" in values:
                return values
        return {}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    place = tmp_path_factory.mktemp("hub")
    environ = {
        "ROTA_SERVER_DATA": str(place / "data"),
        "ROTA_SERVERS_LOCAL": "true",
        "ROTA_SERVERS_ADDRESS": ADDRESS,
    }
    hub = Hub.start(place / "log", environ, port=free_port()).wait()
    made = Machine(hub, access.token(environ, Scope.ADMIN))
    try:
        yield made.ready()
    finally:
        assert hub.stop(30) == 0


def test_what_the_build_said_can_be_read_from_its_beginning(machine: Machine) -> None:
    build = machine.get("/api/builds/1")
    assert (build["app"], build["state"]) == ("shop", "done")
    said = ask(machine.port, "GET", "/api/builds/1/output", machine.bearer)
    assert said.headers["content-type"].startswith("text/plain")
    assert said.body.startswith(b"-----> This is a static app")
    assert ask(machine.port, "GET", "/api/builds/99/output", machine.bearer).status == 404


def test_each_way_of_setting_reaches_the_process(machine: Machine, tmp_path: Path) -> None:
    by_file, by_input, *others = HOSTILE
    machine.set_({**{name: HOSTILE[name] for name in others}, "MARK": b"ways"})
    wait_for(machine.settled, 30)
    (tmp_path / "value").write_bytes(HOSTILE[by_file])
    machine.run("config", "set", "shop", by_file, "--file", str(tmp_path / "value"))
    wait_for(machine.settled, 30)
    machine.run("config", "set", "shop", by_input, given=HOSTILE[by_input])
    wait_for(machine.settled, 30)

    def arrived() -> bool:
        found = machine.found("ways")
        return {name: found.get(name) for name in HOSTILE} == HOSTILE

    wait_for(arrived, 30)


def test_any_bytes_reach_the_process(machine: Machine) -> None:
    numbers = iter(range(1000))

    @given(st.lists(ANY, min_size=4, max_size=7))
    @settings(max_examples=2, deadline=None)
    def arrive(values: list[bytes]) -> None:
        mark = f"any-{next(numbers)}"
        wanted = {f"V{number}": value for number, value in enumerate(values)}
        wait_for(machine.settled, 30)
        machine.set_({**wanted, "MARK": mark.encode()})
        found = wait_for(lambda: machine.found(mark), 30)
        assert {name: found.get(name) for name in wanted} == wanted

    arrive()


def test_one_goes_back_to_what_served_before(machine: Machine) -> None:
    wait_for(machine.settled, 30)
    machine.set_({"MARK": b"before"})
    wait_for(machine.settled, 30)
    machine.set_({"MARK": b"after"})
    wait_for(machine.settled, 30)
    assert "rollback to" in machine.run("rollback", "shop")
    wait_for(machine.settled, 30)
    assert wait_for(lambda: machine.found("before"), 30)
    newest = machine.get("/api/apps/shop/releases")["releases"][0]
    assert (newest["current"], newest["served"]) == (True, True)
