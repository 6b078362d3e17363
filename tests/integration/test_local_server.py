"""`servers.local`: a hub that is its own server enrols itself once, and reports."""

import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.support.postgres import free_port
from tests.support.process import Hub
from tests.support.wait import wait_for

from rota.agent.settings import PORT

ADDRESS = f"127.9.{os.getpid() // 200 % 200}.{os.getpid() % 200 + 1}"


def row(data: Path) -> tuple[str, str, int, int, str]:
    """Return what the hub knows of its one server: name, state, is_primary, seq, last report."""
    with closing(sqlite3.connect(f"file:{data}/rota.db?mode=ro", uri=True)) as database:
        found = database.execute("SELECT name, state, is_primary, seq_in, report FROM servers").fetchall()
    return found[0] if found else ("", "", 0, 0, "")


def test_this_machine_is_enrolled_once_and_reports_again_after_a_restart(tmp_path: Path) -> None:
    environ = {
        "ROTA_SERVER_DATA": str(tmp_path / "data"),
        "ROTA_SERVERS_LOCAL": "true",
        "ROTA_SERVERS_ADDRESS": ADDRESS,
        "ROTA_SERVER_NAME": "My_Laptop.example",
    }
    for time in range(2):
        hub = Hub.start(tmp_path / f"log{time}", environ, port=free_port()).wait()
        try:
            before = row(tmp_path / "data")[3]
            wait_for(lambda before=before: row(tmp_path / "data")[3] > before + 1, 20)  # type: ignore[misc]
            name, state, is_primary, _, report = row(tmp_path / "data")
            assert (name, state, is_primary) == ("my-laptop-example", "enrolled", 1)
            assert '"agent_version"' in report
            assert ("this machine is a server" in hub.output()) == (time == 0)
        finally:
            assert hub.stop() == 0
    key = tmp_path / "data" / "server" / "key"
    assert key.stat().st_mode & 0o777 == 0o600


def test_without_the_setting_there_is_no_server(tmp_path: Path) -> None:
    hub = Hub.start(tmp_path / "log", {"ROTA_SERVER_DATA": str(tmp_path / "data")}, port=free_port()).wait()
    try:
        assert not (tmp_path / "data" / "server").exists()
    finally:
        assert hub.stop() == 0


def test_a_port_that_is_taken_is_said_with_what_to_do_and_no_traceback(tmp_path: Path) -> None:
    address = ADDRESS.replace("127.9.", "127.10.")
    environ = {
        "ROTA_SERVER_DATA": str(tmp_path / "data"),
        "ROTA_SERVERS_LOCAL": "true",
        "ROTA_SERVERS_ADDRESS": address,
    }
    with socket.create_server((address, PORT)):
        hub = Hub.start(tmp_path / "log", environ, port=free_port()).wait()
        try:
            wait_for(lambda: f"no server can be at {address}:{PORT}" in hub.output(), 20)
            assert "ROTA_SERVERS_ADDRESS" in hub.output()
            assert "Traceback" not in hub.output()
        finally:
            assert hub.stop() == 0
