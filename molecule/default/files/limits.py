"""Enter the cgroups of the running unit and meet its limits: memory 160M, tasks 48, CPU 150 %."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

UNIT = "rota.slice/rota-web@1.service"
CGROUPS = {name: Path("/sys/fs/cgroup") / name / UNIT for name in ("memory", "pids", "cpu")}
MIB = 1024 * 1024


def inside(work: Callable[[], None]) -> int:
    """Do the work in a child in the unit's cgroups; return how the child ended, as waitpid says it."""
    child = os.fork()
    if child == 0:
        Path("/proc/self/oom_score_adj").write_text("1000")
        for cgroup in CGROUPS.values():
            (cgroup / "cgroup.procs").write_text(str(os.getpid()))
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def take_memory() -> None:
    held = [bytearray(os.urandom(MIB)) for _ in range(320)]
    os._exit(len(held) and 3)


def take_tasks() -> None:
    end = threading.Event()
    try:
        for _ in range(64):
            threading.Thread(target=end.wait, daemon=True).start()
    except RuntimeError:  # can't start new thread
        os._exit(4)


def take_cpu() -> None:
    began = time.monotonic()
    while time.monotonic() - began < 1:
        pass


def number(controller: str, name: str) -> int:
    return int((CGROUPS[controller] / name).read_text())


def main() -> None:
    assert number("memory", "memory.limit_in_bytes") == 160 * MIB
    assert number("pids", "pids.max") == 48
    assert number("cpu", "cpu.cfs_quota_us") * 100 == 150 * number("cpu", "cpu.cfs_period_us")
    assert inside(take_cpu) == 0, "a child of modest needs must live"
    assert inside(take_tasks) == 4, "64 threads were admitted"
    assert inside(take_memory) == -signal.SIGKILL, "320 MiB were admitted"


main()
