"""One machine: the hub on SQLite is its own server, and a person deploys an example by the commands."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import access
from tests.support.postgres import free_port
from tests.support.process import Hub, environment, run
from tests.support.settings import sqlite_settings
from tests.support.wait import wait_for

from rota.access.scopes import Scope

ROOT = Path(__file__).resolve().parents[2]
APP = "hello"
PATIENCE = 60.0
_random = random.SystemRandom()


class Machine:
    """A hub with `servers.local`, and a person before it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.port = free_port()
        # An address of this test's own, so that another machine's agent on this host is not in its way.
        own = [_random.randrange(1, 255) for _ in range(3)]
        self._environ = {
            "ROTA_SERVERS_ADDRESS": f"127.{own[0]}.{own[1]}.{own[2]}",
            "ROTA_SERVER_DATA": str(directory / "data"),
            "ROTA_SERVERS_LOCAL": "true",
            "ROTA_DEPLOYS_SETTLE": "1",
        }
        self.source = directory / "source"
        shutil.copytree(ROOT / "examples" / "hello", self.source)
        self.hub = self.start()
        token = access.token(sqlite_settings(directory / "data"), Scope.ADMIN)
        self._person = {"ROTA_URL": f"http://127.0.0.1:{self.port}", "ROTA_TOKEN": token}

    def enrolled(self) -> bool:
        """Tell whether the machine is a server of its own hub."""
        return any(each["state"] == "enrolled" for each in self.json("server", "list"))

    def start(self) -> Hub:
        """Start the hub."""
        self.hub = Hub.start(self._directory / "hub.log", self._environ, port=self.port).wait()
        return self.hub

    def rota(self, *argv: str, code: int = 0, given: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a command as the person does."""
        done = (
            run(argv, self._person, within=120)
            if given is None
            else subprocess.run(
                [sys.executable, "-m", "rota", *argv],
                env=environment(self._person),
                input=given,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        )
        assert done.returncode == code, done.stdout + done.stderr + self.hub.output()[-3000:]
        assert "Traceback" not in done.stderr
        return done

    def json(self, *argv: str) -> Any:
        """Return what a command says to programs."""
        return json.loads(self.rota(*argv, "--json").stdout)

    def serving(self) -> list[dict[str, Any]]:
        """Return the copies of `web` that are healthy."""
        found = self.json("ps", APP)["instances"]
        return [each for each in found if each["process_type"] == "web" and each["healthy"]]

    def answers(self) -> list[dict[str, Any]]:
        """Ask each of them; return what they say."""
        said = []
        for each in self.serving():
            with urllib.request.urlopen(f"http://{each['address']}:{each['port']}/", timeout=5) as answer:
                said.append(json.load(answer))
        return said

    def release(self) -> int:
        """Return the release that serves, once nothing is under way any more."""

        def settled() -> int:
            (app,) = self.json("apps")
            return 0 if app["deploy"] else int(app["release"])

        return wait_for(settled, PATIENCE)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Give a machine on which the example runs."""
    made = Machine(tmp_path_factory.mktemp("machine"))
    try:
        wait_for(made.enrolled, PATIENCE)
        began = time.monotonic()
        said = made.rota("deploy", APP, str(made.source)).stdout
        print(f"first deploy: {time.monotonic() - began:.1f} s")
        assert "This is a python app" in said
        assert "there will be no gap" in said
        assert said.endswith("hello v1 serves.\n")
        yield made
    finally:
        made.hub.stop()
        made.hub.kill()


def test_it_answers_and_is_listed(machine: Machine) -> None:
    assert [each["greeting"] for each in machine.answers()] == ["Hello"]
    assert "hello.web.1" in machine.rota("ps", APP).stdout
    assert "chosen" in machine.rota("ps", "why", "hello.web.1").stdout
    (app,) = machine.json("apps")
    assert (app["name"], app["release"], app["healthy"]) == (APP, 1, 2)


def test_it_scales_within_five_seconds(machine: Machine) -> None:
    began = time.monotonic()
    said = machine.rota("ps", "scale", APP, "web=2").stdout
    took = time.monotonic() - began
    print(f"scaled in {took:.1f} s")
    assert took < 3 * 5
    assert "web: 1 → 2, 1 to start, 0 to stop" in said
    assert "building" not in said
    wait_for(lambda: len(machine.answers()) == 2, PATIENCE)
    refused = machine.rota("ps", "scale", APP, "clock=2", code=1).stderr
    assert "clock is a singleton" in refused
    refused = machine.rota("ps", "pin", APP, "web", "--use", "nowhere", code=1).stderr
    assert "no server nowhere" in refused


def test_what_it_writes_is_read(machine: Machine) -> None:
    assert wait_for(lambda: "tick" in machine.rota("logs", APP).stdout, PATIENCE)


def test_configuration_makes_a_release_and_a_rollback_brings_the_old_one_back(machine: Machine) -> None:
    before = machine.release()
    machine.rota("config", "set", APP, "GREETING", given="Good morning")
    assert machine.release() == before + 1
    assert {each["greeting"] for each in machine.answers()} == {"Good morning"}
    machine.rota("rollback", APP)
    assert machine.release() == before + 2
    assert {each["greeting"] for each in machine.answers()} == {"Hello"}
    listed = machine.rota("releases", APP).stdout
    assert f"* v{before + 2}" in listed


def test_a_broken_release_is_named_with_its_last_lines_while_the_old_one_serves(
    machine: Machine, tmp_path: Path
) -> None:
    before = machine.release()
    broken = tmp_path / "broken"
    shutil.copytree(machine.source, broken)
    (broken / "app.py").write_text('import sys\nprint("there is no database here")\nsys.exit(3)\n')
    toml = broken / "rota.toml"
    toml.write_text(toml.read_text().replace("start = 30", "start = 3"))
    refused = machine.rota("deploy", APP, str(broken), code=1).stderr
    assert f"hello.web.1@{before + 1} on " in refused
    assert "did not become healthy" in refused
    assert "there is no database here" in refused
    assert machine.release() == before
    assert {each["greeting"] for each in machine.answers()} == {"Hello"}
    assert {each["release"] for each in machine.serving()} == {before}


def test_a_source_that_cannot_be_built_halts_before_anything_starts(machine: Machine, tmp_path: Path) -> None:
    before = machine.release()
    (tmp_path / "Procfile").write_text("web\n")
    refused = machine.rota("deploy", APP, str(tmp_path), code=1).stderr
    assert "Procfile" in refused
    assert machine.release() == before
    assert machine.answers()


def test_what_ran_runs_again_after_a_restart(machine: Machine) -> None:
    before = machine.release()
    count = len(machine.answers())
    assert machine.hub.stop() == 0
    machine.start()

    def again() -> bool:
        try:
            return len(machine.answers()) == count
        except OSError:
            return False

    wait_for(again, PATIENCE)
    assert {each["release"] for each in machine.serving()} == {before}
    machine.hub.process.send_signal(signal.SIGKILL)
    machine.hub.kill()
    machine.start()
    wait_for(again, PATIENCE)
