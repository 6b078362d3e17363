"""rota_release installs whole releases, switches by rename, and keeps what runs."""

import errno
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from plugins.modules import rota_release as release
from tests.kit.modules import Capture, run


@pytest.mark.parametrize(
    ("names", "keep", "pinned", "removed"),
    [
        ("abc", 3, "c", ""),
        ("abcd", 3, "d", "a"),
        ("abcdef", 3, "f", "cba"),
        # A rollback: the current one is old, and counts.
        ("abcd", 3, "a", "b"),
        # What a process still runs from stays, and counts too.
        ("abcdef", 3, "fa", "dcb"),
        # Even beyond the number.
        ("abcd", 2, "abd", "c"),
    ],
)
def test_which_releases_go(names: str, keep: int, pinned: str, removed: str) -> None:
    aged = [(float(age), name) for age, name in enumerate(names)]
    assert "".join(release.outdated(aged, keep, set(pinned))) == removed


def test_a_release_is_running_while_a_process_is_from_it(tmp_path: Path) -> None:
    for pid, line in {
        "7": b"/opt/rota/releases/abc/bin/python\0/opt/rota/current/bin/rota\0serve\0",
        "8": b"/usr/sbin/sshd\0-D\0",
        "9": b"",
        "self": b"/opt/rota/releases/not-a-process/bin/python\0",
    }.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_bytes(line)
    assert release.running(tmp_path) == {"abc"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        (tmp_path / "releases" / name).mkdir(parents=True)
        (tmp_path / "releases" / name / release.MARKER).touch()
    return tmp_path


def reach(root: Path, capture: Capture, **arguments: Any) -> dict[str, Any]:
    return run(release.main, capture, {"root": str(root), **arguments})


def test_the_link_is_switched_once(root: Path, capsys: Capture) -> None:
    assert reach(root, capsys, state="current", name="one")["changed"] is True
    assert reach(root, capsys, state="current", name="one")["changed"] is False
    assert reach(root, capsys, state="current", name="two")["diff"] == {"before": "one\n", "after": "two\n"}
    assert (root / "current").readlink() == Path("releases/two")


def test_check_mode_switches_and_removes_nothing(root: Path, capsys: Capture) -> None:
    reach(root, capsys, state="current", name="one")
    answer = reach(root, capsys, state="current", name="two", keep=1, _ansible_check_mode=True)
    assert (answer["changed"], answer["removed"]) == (True, ["one"])
    assert (root / "current" / release.MARKER).exists()
    assert (root / "current").readlink() == Path("releases/one")
    assert (root / "releases" / "one").exists()


def test_what_an_interrupted_run_left_is_made_again(
    root: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = root / "archive.zip"
    with zipfile.ZipFile(archive, "w") as bundle:
        bundle.writestr("requirements.lock", "")
    half = root / "releases" / "three"
    half.mkdir()
    (half / "rubbish").touch()
    commands: list[list[str]] = []

    def pretend(command: list[str], **_: Any) -> None:
        commands.append(command)
        half.mkdir(exist_ok=True)

    monkeypatch.setattr(subprocess, "run", pretend)
    assert reach(root, capsys, state="installed", name="three", archive=str(archive))["changed"] is True
    assert [path.name for path in half.iterdir()] == [release.MARKER]
    assert not archive.exists()
    assert "--require-hashes" in commands[1]
    assert "--no-index" in commands[1]
    assert reach(root, capsys, state="installed", name="three", archive=str(archive))["changed"] is False


def test_a_release_that_cannot_be_installed_is_not_complete(
    root: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = root / "archive.zip"
    with zipfile.ZipFile(archive, "w") as bundle:
        bundle.writestr("requirements.lock", "")

    def refuse(command: list[str], **_: Any) -> None:
        (root / "releases" / "three").mkdir()
        raise subprocess.CalledProcessError(1, command, stderr="ensurepip is not available")

    monkeypatch.setattr(subprocess, "run", refuse)
    answer = reach(root, capsys, state="installed", name="three", archive=str(archive))
    assert answer["msg"] == "Release three could not be installed: ensurepip is not available"
    # Half a release would keep a full disk full.
    assert not (root / "releases" / "three").exists()


def test_a_full_disk_and_a_torn_archive_are_told(
    root: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = root / "archive.zip"
    archive.write_bytes(b"PK")
    answer = reach(root, capsys, state="installed", name="three", archive=str(archive))
    assert answer["msg"] == "Release three could not be installed: File is not a zip file"

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(release, "install", full)
    answer = reach(root, capsys, state="installed", name="three", archive=str(archive))
    assert answer["msg"].endswith("could not be installed: [Errno 28] No space left on device")
