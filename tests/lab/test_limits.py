"""On a host made for it, the limits of a unit take effect."""

from collections.abc import Callable

import pytest
from tests.lab.labctl import SWITCH, Labctl

EAT = "x = bytearray(200 << 20); print(len(x))"
FORK = """
import subprocess
children = []
try:
    for _ in range(8):
        children.append(subprocess.Popen(["sleep", "60"]))
except BlockingIOError:
    print("refused at", len(children))
for child in children: child.kill()
"""
# The wall time that a fifth of a second of CPU time takes.
SPIN = """
import time
wall, cpu = time.monotonic(), time.process_time()
while time.process_time() - cpu < 0.2: pass
print(time.monotonic() - wall)
"""


@pytest.fixture(scope="module", params=["trixie", "bookworm"])
def host(request: pytest.FixtureRequest, new_lab: Callable[[str], Labctl]) -> Callable[..., str]:
    lab = new_lab(f"-{request.param}")
    lab("up", SWITCH)
    lab("add", "limited", "10.78.0.11", f"--suite={request.param}", "--cgroup=limits")

    def unit(code: str, *properties: str) -> str:
        """Run Python in a unit with these properties; return what it said."""
        options = [f"--property={each}" for each in properties]
        command = ["systemd-run", "--quiet", "--wait", "--pipe", *options, "python3", "-c", code]
        return lab.attempt("exec", "limited", "--", *command).stdout.strip()

    return unit


def test_memory_is_limited(host: Callable[..., str]) -> None:
    assert host(EAT) == str(200 << 20)
    assert host(EAT, "MemoryMax=30M") == ""


def test_tasks_are_limited(host: Callable[..., str]) -> None:
    assert host(FORK) == ""
    assert host(FORK, "TasksMax=4") == "refused at 3"


def test_cpu_is_limited(host: Callable[..., str]) -> None:
    # A tenth of a processor for 0.2 s of work takes 2 s; half of that leaves room for the first period.
    assert float(host(SPIN, "CPUQuota=10%")) > 1.0
