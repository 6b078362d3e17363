"""Running other programs: argv lists only, never through a shell."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.errors import LabError

_PAUSE = 0.05  # seconds between two looks at a condition


def require_root() -> None:
    """Raise LabError unless the caller is root."""
    if os.geteuid() != 0:
        raise LabError("the lab makes namespaces, cgroups and mounts: run this as root")


def program(name: str) -> str:
    """Return the path of an external program, or raise LabError saying how to get it."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin:/sbin")
    if path is None:
        raise LabError(f"{name} is not installed: run `molecule/labctl packages`")
    return path


def run(  # noqa: PLR0913 - as many as the library has
    argv: Sequence[str],
    *,
    check: bool = True,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    holding: Sequence[int] = (),
    said: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end.

    Args:
        argv: the program and its arguments.
        check: raise LabError with what the program said if its exit status is not 0.
        cwd: directory to run it in.
        env: its whole environment, or None for our own.
        holding: open files that it keeps open too, and with them their locks.
        said: what it finds on its standard input.

    """
    done = subprocess.run(
        [program(argv[0]), *argv[1:]],
        check=False,
        cwd=cwd,
        env=env,
        input=said,
        capture_output=True,
        text=True,
        pass_fds=holding,
    )
    if check and done.returncode != 0:
        said = (done.stderr or done.stdout or "").strip() or "it said nothing"
        raise LabError(f"`{' '.join(argv)}` failed with status {done.returncode}: {said}")
    return done


def wait_for(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Wait until a condition holds; return False if it still does not after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE)
    return True
