"""systemd's side channels, as far as the environment tells of them."""

import os
import socket
from pathlib import Path

import pytest

from rota.drivers.systemd import Notifier, keep_watchdog, sockets_passed
from rota.errors import ConfigurationError


def test_the_supervisors_address_is_taken_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else gunicorn would send a READY of its own, before anything can answer."""
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/x")
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert Notifier.from_environment().watchdog == 15.0
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & set(os.environ)


@pytest.mark.parametrize(("address", "usec"), [("", "30000000"), ("/run/x", "0"), ("/run/x", "many")])
def test_without_a_supervisor_or_a_watchdog_there_are_no_pings(
    monkeypatch: pytest.MonkeyPatch, address: str, usec: str
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    assert Notifier.from_environment().watchdog == 0.0


async def test_a_watchdog_that_is_off_ends_at_once() -> None:
    assert await keep_watchdog(Notifier("", 0)) is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize("abstract", [False, True])
def test_states_reach_a_socket_by_path_and_by_name(tmp_path: Path, *, abstract: bool) -> None:
    name = f"rota-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}" if abstract else name)
        listening.settimeout(5)
        Notifier(f"@{name}" if abstract else name, 0).send("STOPPING=1", "STATUS=x")
        assert listening.recv(100) == b"STOPPING=1\nSTATUS=x"


def test_a_supervisor_that_went_away_is_no_error(tmp_path: Path) -> None:
    Notifier(str(tmp_path / "nobody"), 0).send("READY=1")
    assert not (tmp_path / "nobody").exists()


def test_only_sockets_for_this_very_process_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN_FDS", "2")
    monkeypatch.delenv("LISTEN_PID", raising=False)
    assert sockets_passed() == 0
    monkeypatch.setenv("LISTEN_PID", "1")
    assert sockets_passed() == 0
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    assert sockets_passed() == 2


def test_a_number_that_is_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", "many")
    with pytest.raises(ConfigurationError, match="start the program through its unit"):
        sockets_passed()
