"""rota_files writes what is stated, removes what is not, and says so beforehand in check mode."""

import grp
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from plugins.modules import rota_files
from tests.kit.modules import Capture, run

ME = {"owner": pwd.getpwuid(os.getuid()).pw_name, "group": grp.getgrgid(os.getgid()).gr_name}


def entry(path: Path, content: str, **more: Any) -> dict[str, Any]:
    return {"path": str(path), "content": content, **ME, **more}


def test_a_file_is_written_once_with_its_rights(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "hub.toml"
    arguments = {"files": [entry(target, "a = 1\n", mode="0640")]}
    assert run(rota_files.main, capsys, arguments)["paths"] == [str(target)]
    assert target.read_text() == "a = 1\n"
    assert target.stat().st_mode & 0o7777 == 0o640
    assert run(rota_files.main, capsys, arguments)["changed"] is False


def test_wrong_rights_are_put_right_without_rewriting(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "unit"
    target.write_text("x")
    target.chmod(0o600)
    inode = target.stat().st_ino
    assert run(rota_files.main, capsys, {"files": [entry(target, "x", mode="0644")]})["changed"] is True
    assert (target.stat().st_mode & 0o7777, target.stat().st_ino) == (0o644, inode)


def test_a_link_in_a_files_place_is_replaced_and_not_followed(tmp_path: Path, capsys: Capture) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("theirs")
    target = tmp_path / "file"
    target.symlink_to(elsewhere)
    assert run(rota_files.main, capsys, {"files": [entry(target, "ours")]})["changed"] is True
    assert (target.is_symlink(), target.read_text(), elsewhere.read_text()) == (False, "ours", "theirs")


def test_check_mode_shows_the_difference_and_changes_nothing(tmp_path: Path, capsys: Capture) -> None:
    old = tmp_path / "old"
    old.write_text("old\n")
    fresh = tmp_path / "new" / "file"
    arguments = {
        "_ansible_check_mode": True,
        "directories": [{"path": str(fresh.parent), "owner": "nobody-knows-them", "mode": "0750"}],
        "files": [entry(fresh, "text\n")],
        "only": [f"{tmp_path}/old"],
    }
    answer = run(rota_files.main, capsys, arguments)
    assert answer["paths"] == [str(fresh.parent), str(fresh), str(old)]
    assert answer["diff"][1]["after"].endswith("\ntext\n")
    assert answer["diff"][2]["before"] == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]


def test_a_file_that_is_not_valid_leaves_the_old_one(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "rules.nft"
    target.write_text("good")
    refuse = [
        "/usr/bin/python3",
        "-c",
        "import sys; sys.exit(f'line 1 of {sys.argv[1]} is wrong')",
        "%s",
    ]
    answer = run(rota_files.main, capsys, {"files": [entry(target, "bad", validate=refuse)]})
    assert answer["failed"] is True
    assert answer["msg"].endswith(f"is left as it was: line 1 of {target} is wrong")
    assert target.read_text() == "good"
    assert [path.name for path in tmp_path.iterdir()] == ["rules.nft"]


def test_validation_sees_the_new_text(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "file"
    accept = ["/usr/bin/grep", "--quiet", "new", "%s"]
    assert run(rota_files.main, capsys, {"files": [entry(target, "new", validate=accept)]})["changed"] is True


def test_what_only_matches_and_nobody_lists_goes_with_its_empty_directory(
    tmp_path: Path, capsys: Capture
) -> None:
    for n in (1, 2, 3):
        (tmp_path / f"web@{n}.d").mkdir()
        (tmp_path / f"web@{n}.d" / "address.conf").write_text(str(n))
    (tmp_path / "web@3.d" / "theirs.conf").write_text("kept")
    arguments = {
        "files": [entry(tmp_path / "web@1.d" / "address.conf", "1")],
        "only": [f"{tmp_path}/web@*.d/address.conf"],
    }
    run(rota_files.main, capsys, arguments)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["web@1.d", "web@1.d/address.conf", "web@3.d", "web@3.d/theirs.conf"]


def test_a_listed_directory_stays_when_it_is_emptied(tmp_path: Path, capsys: Capture) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir(mode=0o700)
    (credentials / "old").write_text("secret")
    arguments = {
        "directories": [{"path": str(credentials), **ME, "mode": "0700"}],
        "only": [f"{credentials}/*"],
    }
    assert run(rota_files.main, capsys, arguments)["paths"] == [str(credentials / "old")]
    assert list(credentials.iterdir()) == []


@pytest.mark.parametrize("content", ["", "no newline", "ünïcode \u0000 and control\n"])
def test_any_text_arrives_unchanged(tmp_path: Path, capsys: Capture, content: str) -> None:
    target = tmp_path / "file"
    run(rota_files.main, capsys, {"files": [entry(target, content)]})
    assert target.read_bytes() == content.encode()
