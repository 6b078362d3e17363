"""However talkative a run is, and however it ends, none of the kit's secrets is in what it prints."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
# Knows of nothing, and shows the statement that it refuses, as psql does.
LOUD_PSQL = """#!/usr/bin/python3 -I
import sys
said = sys.stdin.read()
if "json_build_object" in said:
    print("{}")
else:
    sys.exit("ERROR: no\\nLINE 1: " + said)
"""
MADE, GIVEN = "KITCANARY-made-81f2", "KITCANARY-given-c07e"


def one_task(role_file: str, name: str, into: Path) -> str:
    """Write a task file that holds one task of an Ansible role, and give its path."""
    tasks = yaml.safe_load((ROOT / "roles" / role_file).read_text())
    into.write_text(yaml.safe_dump([task for task in tasks if task["name"] == name]))
    assert name in into.read_text()
    return str(into)


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, Any]:
    """Give the variables of a run whose secrets are one that the kit made and one that the operator gave."""
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "database-password").write_text(MADE)
    # A task looks for its templates beside itself.
    shutil.copy(ROOT / "roles" / "rota" / "templates" / "credentials.json.j2", tmp_path)
    return {
        "ansible_python_interpreter": sys.executable,
        "rota_keys_host": "localhost",
        "rota_keys": ["database-password"],
        "rota_credentials": {"server-metrics-token": GIVEN},
        "_rota_keys_directory": str(keys),
        "postgresql_password": "{{ _rota_secrets['database-password'] }}",
        "_postgresql_programs": str(tmp_path / "programs"),
        "credentials_task": one_task(
            "rota/tasks/configure.yml", "Write the credentials", tmp_path / "credentials.yml"
        ),
        "postgresql_task": one_task(
            "postgresql/tasks/server.yml", "Keep the role and the database", tmp_path / "postgresql.yml"
        ),
    }


@pytest.fixture
def programs() -> Iterator[Path]:
    """Give a directory that the user postgres may look into."""
    directory = Path(tempfile.mkdtemp(prefix="rota-psql-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def play(variables: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    into = Path(variables["credentials_task"]).parent
    given = into / "given.json"
    given.write_text(json.dumps(variables))
    argv = [sys.executable, "-m", "ansible", "playbook", "--inventory=localhost,", "-vvv", "--diff"]
    argv += [*options, f"--extra-vars=@{given}", "tests/kit/secrets.yml"]
    environment = {**os.environ, "ANSIBLE_LOCAL_TEMP": str(into)}
    return subprocess.run(argv, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)


def assert_silent(done: subprocess.CompletedProcess[str]) -> None:
    shown = done.stdout + done.stderr
    lines = [line for line in shown.splitlines() if "KITCANARY" in line or "SCRAM-SHA-256$" in line]
    assert lines == []


def test_a_run_that_goes_well_shows_none(variables: dict[str, Any]) -> None:
    done = play(variables, "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "make the role rota" in done.stdout
    assert done.stdout.count("censored: ") >= 2
    assert_silent(done)


def test_a_damaged_secret_is_named_though_the_output_is_hidden(variables: dict[str, Any]) -> None:
    Path(variables["_rota_keys_directory"], "database-password").write_text("")
    done = play(variables, "--check")
    assert done.returncode == 2
    assert "localhost: " in done.stdout
    assert "database-password is empty. Put the secret back" in done.stdout
    assert_silent(done)


def test_with_the_switch_off_they_would_show(variables: dict[str, Any]) -> None:
    """Else the tests here would find nothing for the wrong reason."""
    done = play({**variables, "rota_no_log": False}, "--check")
    assert MADE in done.stdout
    assert GIVEN in done.stdout


def test_a_server_that_refuses_and_repeats_all_it_was_told_shows_none(
    variables: dict[str, Any], programs: Path
) -> None:
    psql = programs / "bin" / "psql"
    psql.parent.mkdir()
    psql.write_text(LOUD_PSQL)
    psql.chmod(0o755)
    loud = {**variables, "_postgresql_programs": str(programs)}
    done = play({**loud, "credentials_task": variables["postgresql_task"]})
    assert done.returncode == 2
    assert "PostgreSQL refused: ERROR: no" in done.stdout
    assert_silent(done)
