"""The proof that flock excludes: two real processes, and what each thing that can be wrong is said to be."""

import argparse
import fcntl
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support.wait import wait_for

PROGRAM = Path(__file__).parents[2] / "units" / "rota-flock-proof.py"
SOON = "--patience=20"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    """Give the program as a module."""
    spec = importlib.util.spec_from_file_location("rota_flock_proof", PROGRAM)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def begin(verb: str, directory: Path, *more: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-I", str(PROGRAM), verb, f"--directory={directory}", "--run=r", *more]
    return subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return what a side said, its exit status being what that means."""
    said, wrong = process.communicate(timeout=120)
    result: dict[str, Any] = json.loads(said)
    assert process.returncode == (0 if result["proved"] else 1), wrong
    return result


def test_two_processes_prove_it_both_ways_and_leave_nothing(tmp_path: Path) -> None:
    sides = [begin(verb, tmp_path, SOON, "--alone") for verb in ("hold", "contend")]
    held, contended = (end(side) for side in sides)
    assert (held["proved"], contended["proved"]) == (True, True)
    assert held["rounds"] == contended["rounds"]
    assert [seen["refused"] for seen in held["rounds"]] == [5, 5]
    assert all(seen["free_after"] < 10 for seen in held["rounds"])
    assert list(tmp_path.iterdir()) == []


def test_two_proofs_at_once_do_not_meet(tmp_path: Path) -> None:
    runs = [
        begin(verb, tmp_path, SOON, "--alone", f"--run={run}")
        for run in ("one", "two")
        for verb in ("hold", "contend")
    ]
    assert all(end(side)["proved"] for side in runs)
    assert list(tmp_path.iterdir()) == []


def test_two_directories_are_not_one(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    sides = [begin("hold", tmp_path / "a", "--patience=1"), begin("contend", tmp_path / "b", "--patience=1")]
    for result in map(end, sides):
        assert not result["proved"]
        assert "do not have the same directory mounted" in result["message"]
    assert list((tmp_path / "a").iterdir()) == list((tmp_path / "b").iterdir()) == []


def test_one_host_under_two_names_proves_nothing(tmp_path: Path) -> None:
    sides = [begin(verb, tmp_path, SOON) for verb in ("hold", "contend")]
    messages = [end(side)["message"] for side in sides]
    assert any("which proves nothing" in message for message in messages)


def test_a_holder_lost_from_outside_frees_the_lock(tmp_path: Path) -> None:
    hold = begin("hold", tmp_path, SOON, "--alone", "--stay")
    contend = begin("contend", tmp_path, SOON, "--alone", "--stay")
    place = tmp_path / ".rota-proof" / "r"
    wait_for((place / "1.refused").exists)
    (grip,) = (pid for pid in processes() if b"grip" in pid[1] and os.fsencode(place / "1.lock") in pid[1])
    os.kill(grip[0], signal.SIGKILL)
    (seen,) = end(contend)["rounds"]
    assert seen["free_after"] < 10
    assert end(hold)["rounds"] == [{"lost": ""}]


def processes() -> list[tuple[int, list[bytes]]]:
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                found.append((int(path.name), (path / "cmdline").read_bytes().split(b"\0")))
            except OSError:  # it ended while we looked
                continue
    return found


def test_a_holder_that_lives_on_is_named(tmp_path: Path) -> None:
    hold = begin("hold", tmp_path, SOON, "--alone", "--stay")
    contend = begin("contend", tmp_path, "--patience=5", "--alone", "--stay")
    assert "neither let the lock go nor died within 5 s" in end(contend)["message"]
    hold.terminate()
    hold.communicate(timeout=60)


def test_a_side_that_fails_ends_the_other(tmp_path: Path, program: ModuleType) -> None:
    hold = begin("hold", tmp_path, "--patience=60", "--alone")
    wait_for((tmp_path / ".rota-proof" / "r" / "hold.here").exists)
    side = program.Side("contend", tmp_path / ".rota-proof" / "r", alone=True, patience=20.0, release=20.0)
    side.mark("contend.here", host="there", uid=os.getuid())
    side.mark("contend.failed", message="the disk is full")
    began = time.monotonic()
    assert end(hold)["message"] == "the other side says: the disk is full"
    assert time.monotonic() - began < 30


@pytest.fixture
def side(tmp_path: Path, program: ModuleType) -> Any:
    """Give the contending side of a proof whose holder is this test."""
    (tmp_path / "1.lock").write_text("token")
    made = program.Side("contend", tmp_path, alone=True, patience=5.0, release=1.0)
    program.Side("hold", tmp_path, alone=True, patience=5.0, release=1.0).mark("1.held", token="token")
    return made


def test_a_lock_that_two_get_is_no_lock(side: Any, program: ModuleType) -> None:
    """As on a file system whose locks stay on each host."""
    with pytest.raises(program.Failed, match="flock does not exclude: this host took the lock while p1 held"):
        program.contend_round(side, 1, "p1")


def test_data_that_is_not_seen_is_named(side: Any, program: ModuleType) -> None:
    (side.place / "1.lock").write_text("older")
    with (side.place / "1.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(program.Failed, match="what p1 wrote and synced under the lock is not read here"):
            program.contend_round(side, 1, "p1")


def test_a_lock_that_outlives_its_holder_is_named(side: Any, program: ModuleType) -> None:
    program.Side("hold", side.place, alone=True, patience=5.0, release=1.0).mark("1.killed")
    with (side.place / "1.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(program.Failed, match="still held 1 s after its holder on p1 was killed"):
            program.contend_round(side, 1, "p1")


def test_other_numbers_of_the_user_are_named(side: Any, program: ModuleType) -> None:
    program.Side("hold", side.place, alone=True, patience=5.0, release=1.0).mark(
        "hold.here", host="p1", uid=os.getuid() + 1
    )
    with pytest.raises(program.Failed, match="on p1: set base_uid"):
        program.meet(side)


def test_what_a_killed_proof_left_is_removed_after_a_while(tmp_path: Path) -> None:
    for name, age in (("old", 7200.0), ("young", 60.0)):
        place = tmp_path / ".rota-proof" / name
        place.mkdir(parents=True)
        os.utime(place, (time.time() - age, time.time() - age))
    for side in [begin(verb, tmp_path, SOON, "--alone") for verb in ("hold", "contend")]:
        assert end(side)["proved"]
    assert [path.name for path in (tmp_path / ".rota-proof").iterdir()] == ["young"]


LINE = "36 25 0:34 / {point} rw,nosuid,relatime shared:1 - {kind} {source} rw,{options}"
GOOD = "vers=4.2,hard,proto=tcp,lookupcache=pos,local_lock=none,addr=10.98.0.1"


def nfs(program: ModuleType, options: str) -> Any:
    line = LINE.format(point="/srv/rota/tlog", kind="nfs4", source="10.98.0.1:/srv/export", options=options)
    return program.mounts(line)[0]


def test_a_directory_is_on_the_last_and_longest_mount(program: ModuleType) -> None:
    lines = [
        LINE.format(point="/", kind="ext4", source="/dev/vda", options="discard"),
        LINE.format(point="/srv", kind="ext4", source="/dev/vdb", options="discard"),
        LINE.format(point=r"/srv/a\040b", kind="xfs", source="/dev/vdc", options="discard"),
        LINE.format(point="/srv", kind="tmpfs", source="tmpfs", options="size=1"),
    ]
    found = program.mounts("\n".join(lines))
    assert program.covering(found, "/srv/rota").source == "tmpfs"
    assert program.covering(found, "/srv").source == "tmpfs"
    assert program.covering(found, "/srv/a b/c").source == "/dev/vdc"
    assert program.covering(found, "/srvx").source == "/dev/vda"


def test_the_options_of_the_kit_are_not_refused(program: ModuleType) -> None:
    assert program.refusals(nfs(program, GOOD), "N\n") == []


@pytest.mark.parametrize(
    ("options", "recover", "said"),
    [
        (GOOD.replace("hard", "soft"), "N", "Take soft out"),
        (GOOD.replace("hard", "softerr"), "N", "Take softerr out"),
        (f"{GOOD},nolock", "N", "Take nolock out"),
        (f"{GOOD},nocto", "N", "Take nocto out"),
        (GOOD.replace("local_lock=none", "local_lock=flock"), "N", "local_lock=flock: locks would stay"),
        (GOOD.replace("vers=4.2", "vers=3"), "N", "NFSv3: mount it with vers=4.2"),
        (GOOD, "Y", "Remove recover_lost_locks=1"),
    ],
)
def test_a_mount_whose_locks_do_not_exclude_is_refused(
    program: ModuleType, options: str, recover: str, said: str
) -> None:
    (sentence,) = program.refusals(nfs(program, options), f"{recover}\n")
    assert said in sentence


def test_a_disk_is_not_asked_about_nfs(program: ModuleType) -> None:
    found = program.mounts(LINE.format(point="/", kind="ext4", source="/dev/vda", options="discard"))
    assert program.refusals(found[0], "Y") == []


def test_the_owner_and_the_mode_matter(tmp_path: Path, program: ModuleType) -> None:
    me = program.pwd.getpwuid(os.getuid()).pw_name
    tmp_path.chmod(0o700)
    assert program.owner_faults(str(tmp_path), me) == []
    tmp_path.chmod(0o750)
    assert "chmod 0700" in program.owner_faults(str(tmp_path), me)[0]
    assert "set base_uid" in program.owner_faults(str(tmp_path), "daemon")[0]


def ask(verb: str, directory: Path, *more: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", str(PROGRAM), verb, f"--directory={directory}", *more]
    return subprocess.run(argv, check=False, capture_output=True, text=True)


def inspect(directory: Path, *more: str) -> dict[str, Any]:
    return dict(json.loads(ask("inspect", directory, *more).stdout))


def test_a_proof_holds_until_its_subject_changes(tmp_path: Path) -> None:
    directory, kept = tmp_path / "log", tmp_path / "kept.json"
    directory.mkdir(mode=0o700)
    about = (f"--result={kept}", "--alone")
    assert inspect(directory, *about)["proved"] is False
    sides = [begin("hold", directory, SOON, "--alone"), begin("contend", directory, SOON, *about)]
    assert all(end(side)["proved"] for side in sides)
    seen = inspect(directory, *about)
    assert (seen["proved"], seen["refusals"], seen["kept"]["directory"]) == (True, [], str(directory))
    assert inspect(directory, f"--result={kept}")["proved"] is False  # now of several hosts
    assert inspect(directory, *about, "--source=elsewhere")["proved"] is False
    kept.write_text(json.dumps({**seen["kept"], "proved": False}))
    assert inspect(directory, *about)["proved"] is False


def test_a_failed_proof_is_kept_as_such(tmp_path: Path) -> None:
    directory, kept = tmp_path / "log", tmp_path / "kept.json"
    directory.mkdir(mode=0o700)
    result = end(begin("contend", directory, "--patience=0.5", f"--result={kept}", "--alone"))
    assert json.loads(kept.read_text())["message"] == result["message"]
    assert inspect(directory, f"--result={kept}", "--alone")["proved"] is False


def test_what_is_not_mounted_is_said(tmp_path: Path) -> None:
    (said,) = inspect(tmp_path, "--backend=bind", "--source=/srv/shared")["refusals"]
    assert said.startswith(f"Nothing is mounted on {tmp_path}")
    assert ask("intact", tmp_path, "--backend=bind", "--source=/srv/shared").returncode == 1


def test_the_options_in_force_are_compared(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def intact(source: str, options: str) -> bool:
        monkeypatch.setattr(program, "covering", lambda _found, _directory: nfs(program, GOOD))
        given = argparse.Namespace(
            directory="/srv/rota/tlog", backend="nfs", source=f"10.98.0.1:{source}", options=options
        )
        return bool(program.intact(given))

    assert intact("/srv/export", "hard,vers=4.2,proto=tcp,lookupcache=positive,nosuid")
    assert not intact("/srv/other", "hard")
    for option in ("vers=4.1", "lookupcache=all", "nodev"):
        assert not intact("/srv/export", option), option
