"""A writer that is frozen holds the others up for a while, and loses and doubles nothing when it thaws."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.process import environment, run
from tests.support.tlog_files import check_answers
from tests.support.wait import wait_for

from rota.tlog.turn import LONGEST_TURN

ROOT = Path(__file__).parents[2]


def writer(directory: Path, acknowledged: Path, name: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.support.tlog_writer",
            str(directory),
            str(acknowledged),
            name,
            "100000",
            "3",
        ],
        cwd=ROOT,
        env=environment({"PYTHONPATH": f"{ROOT / 'app'}:{ROOT}"}),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_two_writers_at_full_speed_of_which_one_is_frozen_and_thawed(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    running = [writer(tmp_path / "tlog", path, path.name) for path in (one, other)]
    try:
        wait_for(lambda: lines(one) > 5 and lines(other) > 5, 30)
        for frozen_for in (0.3, 0.3, LONGEST_TURN + 1):
            before = lines(one)
            os.kill(running[0].pid, signal.SIGSTOP)
            thaw = time.monotonic() + frozen_for
            wait_for(lambda thaw=thaw: time.monotonic() > thaw, frozen_for + 5)  # type: ignore[misc]
            os.kill(running[0].pid, signal.SIGCONT)
            wait_for(lambda before=before: lines(one) > before + 5, 30)  # type: ignore[misc]
    finally:
        said = []
        for process in running:
            process.kill()
            said.append(process.communicate(timeout=10)[1].decode())
    assert "two writers" not in "".join(said)
    assert "damaged" not in "".join(said)
    check_answers(tmp_path / "tlog", one, other)


def test_what_a_web_process_does_not_start_with(tmp_path: Path) -> None:
    data = {"ROTA_SERVER_DATA": str(tmp_path / "data")}
    (tmp_path / "policy").write_text("quorum nobody\n")
    for setting, value, said in (
        ("CHECKPOINT_KEY", "PRIVATE+KEY+rubbish", "tlog.checkpoint_key: not a private key"),
        ("QUORUM", str(tmp_path / "policy"), "line 1 of the policy: nobody is not defined above"),
        ("QUORUM", str(tmp_path / "absent"), "No such file"),
        ("QUORUM", "policy", "is no absolute path"),
        ("DIRECTORY", "tlog", "is no absolute path"),
    ):
        done = run(["serve"], {**data, f"ROTA_TLOG_{setting}": value}, within=30)
        assert done.returncode == 78, done.stderr
        assert said in done.stderr
        assert "rubbish" not in done.stderr
