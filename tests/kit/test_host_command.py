"""The command `rota` on a host: the program as its own user, with the credentials, and no shell between."""

import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).parents[2] / "roles" / "rota" / "files" / "rota.py"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = spec_from_file_location("host_command", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_arguments_arrive_as_they_were_typed(program: ModuleType) -> None:
    typed = ["backup", "now", "--json", "a b", "$HOME", "%i", "--", ";", ""]
    argv = program.command(typed, ["database-password", "server-metrics-token"], [])
    assert argv[0] == "/usr/bin/systemd-run"
    ours = argv[argv.index(program.PROGRAM) + 1 :]
    # systemd takes "$$" for "$" and nothing else for anything.
    assert [word.replace("$$", "$") for word in ours] == typed
    assert "$$HOME" in ours


def test_it_runs_as_the_hubs_user_with_the_hubs_credentials(program: ModuleType) -> None:
    argv = program.command(["settings"], ["database-password"], [])
    assert {"--property=User=rota", "--property=Group=rota", "--property=UMask=0077", "--wait"} <= set(argv)
    loaded = [word for word in argv if "LoadCredential" in word]
    assert loaded == ["--property=LoadCredential=database-password:/etc/rota/credentials/database-password"]


def test_a_token_is_handed_on_and_stands_on_no_command_line(program: ModuleType) -> None:
    argv = program.command(["queue", "list"], [], ["ROTA_URL", "ROTA_TOKEN"])
    assert [word for word in argv if "ROTA" in word] == ["--setenv=ROTA_URL", "--setenv=ROTA_TOKEN"]


def test_who_is_not_root_is_told(tmp_path: Path) -> None:
    copy = tmp_path / "rota"
    copy.write_text(PROGRAM.read_text().replace("os.geteuid()", "1000"))
    done = subprocess.run([sys.executable, "-I", str(copy)], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("rota: run this as root.")


def test_it_can_be_run_as_it_lies() -> None:
    assert os.access(PROGRAM, os.X_OK)
    assert PROGRAM.read_text().startswith("#!/usr/bin/python3 -I\n")
