"""The programs of a server begin: each in an interpreter of its own, as systemd starts them."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["rota.agent", "rota.agent.lines"])
def test_a_program_of_a_server_does_not_start_for_want_of_a_module(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-m", module, "--help"], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "--settings" in done.stdout
