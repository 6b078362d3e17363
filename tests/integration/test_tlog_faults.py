"""Writers killed at every write, disks that fail and fill up: nothing answered is lost or doubled."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.process import environment
from tests.support.tlog_files import check_answers
from tests.support.tlog_writer import SEGMENT

from rota.tlog.disk import LocalDisk
from rota.tlog.records import Records

ROOT = Path(__file__).parents[2]
WRITER = [sys.executable, "-m", "tests.support.tlog_writer"]
STRACE = ["strace", "--follow-forks", "--quiet=all", "--output=/dev/null", "--trace=none"]


def writer(
    directory: Path, acknowledged: Path, *rest: str, before: tuple[str, ...] = ()
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*before, *WRITER, str(directory), str(acknowledged), *rest],
        cwd=ROOT,
        env=environment({"PYTHONPATH": f"{ROOT / 'app'}:{ROOT}"}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def run(directory: Path, acknowledged: Path, *rest: str, before: tuple[str, ...] = ()) -> tuple[int, str]:
    process = writer(directory, acknowledged, *rest, before=before)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors.decode()


def acks(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


# Which call fails, and how. The log is made beforehand, so that the first calls are an append's.
FAULTS = [
    f"{call}:{fault}"
    for call, faults in {
        "pwrite64": ("error=EIO", "error=ENOSPC", "retval=3", "signal=KILL"),
        "fdatasync": ("error=EIO", "error=ENOSPC", "signal=KILL"),
        "flock": ("error=ENOLCK", "signal=KILL"),
        "fsync": ("error=EIO", "signal=KILL"),
        "ftruncate": ("error=EIO", "signal=KILL"),
    }.items()
    for fault in faults
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a log of four entries, and what was answered to their writer."""
    place = tmp_path_factory.mktemp("template")
    assert run(place / "tlog", place / "before", "before", "2", "2") == (0, "")
    return place


@pytest.mark.parametrize("fault", FAULTS)
def test_a_call_that_fails_or_is_the_writers_last(fault: str, template: Path, tmp_path: Path) -> None:
    for when in (1, 2, 3, 6):
        place = shutil.copytree(template, tmp_path / str(when))
        directory, during = place / "tlog", place / "during"
        call = fault.partition(":")[0]
        tracing = (*STRACE[:-1], f"--trace={call}", f"--inject={fault}:when={when}")
        code, errors = run(directory, during, "during", "6", "2", before=tracing)
        if code < 0:
            assert (code, "KILL" in fault) == (-9, True)
        elif code > 0:
            assert "nothing was done" in errors or "files:" in errors
        # a torn end, and a file that another process has just failed on
        writer = Records(LocalDisk(directory), lambda: 0)
        writer.append([b"after"])
        count = check_answers(directory, place / "before", *[during] if during.exists() else [])
        assert count >= 4 + len(acks(during)) + 1


def test_a_fault_at_close_is_told(template: Path, tmp_path: Path) -> None:
    """A file server may say only at close that a write came to nothing."""
    place = shutil.copytree(template, tmp_path / "place")
    directory, before, during = place / "tlog", place / "before", place / "during"
    path = f"--trace-path={directory / 'records' / '0000000000000000'}"
    tracing = (*STRACE[:-1], "--trace=close", path, "--inject=close:error=EIO:when=2")
    code, errors = run(directory, during, "during", "2", "2", before=tracing)
    assert code == 1
    assert "Input/output error" in errors
    assert len(acks(during)) == 2
    check_answers(directory, before, during)


def test_several_writers_killed_at_random(tmp_path: Path) -> None:
    directory, chance = tmp_path / "tlog", random.Random(4)  # noqa: S311 - the same chance each time
    acknowledged = []
    for turn in range(5):
        running = []
        for name in "abc":
            path = tmp_path / f"{name}{turn}"
            acknowledged.append(path)
            path.touch()
            running.append(writer(directory, path, f"{name}{turn}", "10000", str(chance.randint(1, 5))))
        deadline = 60
        wanted = chance.randint(1, 40)
        while len(acks(acknowledged[-1])) < wanted and deadline:
            deadline -= 1
            try:
                running[-1].wait(timeout=chance.uniform(0.05, 0.2))
            except subprocess.TimeoutExpired:
                continue
        for process in running:
            process.kill()
            process.communicate(timeout=10)
    last = tmp_path / "last"
    assert run(directory, last, "last", "2", "3") == (0, "")
    answered = sum(len(acks(path)) for path in [*acknowledged, last])
    assert answered > 50
    count = check_answers(directory, *acknowledged, last)
    assert count >= answered


def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    """Files that may not grow: writes come out short, and then fail."""
    directory, during, after = tmp_path / "tlog", tmp_path / "a", tmp_path / "b"
    code, errors = run(directory, during, "during", "30", "4", str(SEGMENT // 2))
    assert code > 0
    assert "File too large: nothing was done" in errors
    assert 0 < len(acks(during)) < 120
    assert run(directory, after, "after", "30", "4") == (0, "")
    assert check_answers(directory, during, after) == len(acks(during)) + 120


def test_a_small_file_system(tmp_path: Path) -> None:
    """A file system of 128 KiB, in a mount space of its own, filled up and then given room."""
    place, during, after = tmp_path / "place", tmp_path / "a", tmp_path / "b"
    place.mkdir()
    script = tmp_path / "script.py"
    script.write_text(
        "import subprocess, sys\n"
        f"place, writer = {str(place)!r}, {WRITER!r}\n"
        "subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=128k', 'none', place], check=True)\n"
        "writer.append(place + '/tlog')\n"
        f"first = subprocess.run([*writer, {str(during)!r}, 'during', '200', '4'], check=False)\n"
        "subprocess.run(['mount', '-o', 'remount,size=1m', place], check=True)\n"
        f"second = subprocess.run([*writer, {str(after)!r}, 'after', '20', '4'], check=False)\n"
        f"subprocess.run(['cp', '--recursive', place + '/tlog', {str(tmp_path / 'tlog')!r}], check=True)\n"
        "print('codes', first.returncode, second.returncode)\n"
    )
    own = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, str(script)]
    done = subprocess.run(
        own,
        cwd=ROOT,
        env=environment({"PYTHONPATH": f"{ROOT / 'app'}:{ROOT}"}),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "No space left on device: nothing was done" in done.stderr
    assert done.stdout.splitlines()[-1] == "codes 100 0"
    assert check_answers(tmp_path / "tlog", during, after) == len(acks(during)) + 80
