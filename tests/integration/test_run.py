"""`make run`: what it says once the program is well, and that it says so of its own program alone."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.access import sign_in
from tests.support.postgres import free_port
from tests.support.process import Hub, environment
from tests.support.wait import wait_for

from rota.errors import EXIT_FAILED

ROOT = Path(__file__).resolve().parents[2]
# The data goes below the first argument instead of the checkout.
RUN = (
    "import sys; from pathlib import Path; from tools import run; "
    "run.ROOT = Path(sys.argv[1]); sys.exit(run.main())"
)


def start(port: int, directory: Path) -> "subprocess.Popen[str]":
    """Start what `make run` starts, as a terminal would: in a process group of its own."""
    directory.mkdir()
    with (directory / "out").open("w") as out:
        return subprocess.Popen(
            [sys.executable, "-c", RUN, str(directory)],
            cwd=ROOT,
            env=environment({"ROTA_SERVER_ADDRESS": f"127.0.0.1:{port}", "PYTHONPATH": str(ROOT)}),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            text=True,
            process_group=0,
        )


def test_it_says_where_to_look_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    port = free_port()
    process = start(port, tmp_path / "run")
    try:
        out = tmp_path / "run" / "out"
        wait_for(lambda: "Ctrl-C stops it" in out.read_text())
        assert f"curl http://127.0.0.1:{port}/health" in out.read_text()
        assert str(tmp_path / "run" / "data") in out.read_text()
        assert signs_in(port, out.read_text())
        signal_group(process, signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        signal_group(process, signal.SIGKILL)


def test_what_stops_it_stops_the_program(tmp_path: Path) -> None:
    """The first administrator is made in between, and must not take its handlers away."""
    port = free_port()
    process = start(port, tmp_path / "run")
    try:
        out = tmp_path / "run" / "out"
        wait_for(lambda: "Ctrl-C stops it" in out.read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
    finally:
        signal_group(process, signal.SIGKILL)


def signs_in(port: int, said: str) -> bool:
    """Tell whether the name and the password that were printed open the door."""
    found = re.search(r"Sign in as (\w+) with the password (\S+)\n", said)
    assert found is not None, said
    return sign_in(port, found[1], found[2]).status == 303


class TestBesideAnother:
    @pytest.fixture
    def other(self, tmp_path: Path) -> Iterator[Hub]:
        """Give a hub that is well, at the address that is wanted."""
        hub = Hub.start(tmp_path / "log", {"ROTA_SERVER_DATA": str(tmp_path / "other")}, port=free_port())
        yield hub.wait()
        hub.kill()

    def test_the_health_of_another_is_not_taken_for_its_own(self, other: Hub, tmp_path: Path) -> None:
        assert other.port is not None
        process = start(other.port, tmp_path / "run")
        try:
            assert process.wait(20) == EXIT_FAILED
        finally:
            signal_group(process, signal.SIGKILL)
        said = (tmp_path / "run" / "out").read_text()
        assert "Address already in use: stop what listens there" in said
        assert "Rota runs" not in said


def signal_group(process: "subprocess.Popen[str]", number: signal.Signals) -> None:
    """Signal a process and its children, as a terminal does; nothing once it has ended."""
    if process.poll() is None:
        os.killpg(process.pid, number)
