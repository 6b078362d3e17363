"""What a unit runs after its start tells an address that is bound from one that is not."""

import getpass
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "units" / "rota-bound.py"


def ask(user: str, *endpoints: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", str(PROGRAM), user, *endpoints]
    return subprocess.run(argv, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "[::1]")])
def test_a_listening_socket_is_found_by_its_address_port_and_user(family: int, host: str) -> None:
    with socket.socket(family) as listener, socket.socket(family) as silent:
        for each in (listener, silent):
            each.bind((host.strip("[]"), 0))
        listener.listen()
        bound = f"{host}:{listener.getsockname()[1]}"
        assert ask(getpass.getuser(), bound).returncode == 0
        elsewhere = f"127.0.0.9:{listener.getsockname()[1]}"
        unheard = f"{host}:{silent.getsockname()[1]}"
        missing = ask(getpass.getuser(), bound, elsewhere, unheard)
        assert missing.returncode == 1
        assert f"does not listen at {elsewhere}, {unheard}: " in missing.stderr
        # Another's socket at the address proves nothing.
        assert ask("daemon", bound).returncode == 1
