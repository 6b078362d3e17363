"""Enter the cgroups of the running unit and meet its limits: memory 160M, tasks 48, CPU 60 %."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

TOP = Path("/sys/fs/cgroup")
UNIT = "rota.slice/rota-web@1.service"
MIB = 1024 * 1024
WORK = 0.6  # seconds of CPU time, which take a second at 60 %


def cgroups() -> list[Path]:
    """Give where a process is put to be in the unit: one place, or on version 1 one for each controller."""
    if (TOP / "cgroup.controllers").exists():
        return [TOP / UNIT]
    return [TOP / name / UNIT for name in ("memory", "pids", "cpu")]


def inside(work: Callable[[], None]) -> int:
    """Do the work in a child in the unit's cgroups; return how the child ended."""
    child = os.fork()
    if child == 0:
        Path("/proc/self/oom_score_adj").write_text("1000")
        for cgroup in cgroups():
            (cgroup / "cgroup.procs").write_text(str(os.getpid()))
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def take_little() -> None:
    assert len(bytearray(os.urandom(MIB))) == MIB


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
    wall, cpu = time.monotonic(), time.process_time()
    while time.process_time() - cpu < WORK:
        pass
    # The first period's share is not waited for.
    os._exit(5 if time.monotonic() - wall > WORK / 0.6 - 0.2 else 6)


def main() -> None:
    assert inside(take_little) == 0, "a child of modest needs must live"
    assert inside(take_cpu) == 5, "the CPU time was not rationed"
    assert inside(take_tasks) == 4, "64 threads were admitted"
    assert inside(take_memory) == -signal.SIGKILL, "320 MiB were admitted"


main()
