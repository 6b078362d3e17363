"""rota_keys makes what is missing once, never changes what is there, and lets nobody but root read it."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from plugins.modules import rota_keys
from tests.kit.modules import Capture, run


def ask(capsys: Capture, directory: Path, **more: Any) -> dict[str, Any]:
    return run(rota_keys.main, capsys, {"names": ["one", "two"], "directory": str(directory), **more})


def test_a_missing_secret_is_made_once(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "rota" / "keys"
    first, second = ask(capsys, folder), ask(capsys, folder)
    assert (first["changed"], first["made"]) == (True, ["one", "two"])
    assert (second["changed"], second["made"], second["secrets"]) == (False, [], first["secrets"])
    assert first["secrets"] == {name: (folder / name).read_text() for name in ("one", "two")}
    assert len(set(first["secrets"].values())) == 2
    assert sorted(path.name for path in folder.iterdir()) == ["one", "two"]


def test_a_secret_has_256_bits_and_needs_no_quoting(tmp_path: Path) -> None:
    secret = rota_keys.make(tmp_path / "key")
    assert len(secret) == 43
    assert secret.replace("-", "").replace("_", "").isalnum()


def test_only_the_owner_reads_it_and_wide_rights_are_taken_back(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "keys"
    ask(capsys, folder)
    assert [path.stat().st_mode & 0o7777 for path in (folder, folder / "one")] == [0o700, 0o600]
    for path in (folder, folder / "one", folder / "two"):
        path.chmod(0o755)
    assert ask(capsys, folder)["changed"] is True
    assert [path.stat().st_mode & 0o7777 for path in (folder, folder / "two")] == [0o700, 0o600]


def test_what_an_operator_put_there_stays(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "one").write_text("the operator's own\n")
    answer = ask(capsys, tmp_path)
    assert answer["secrets"]["one"] == "the operator's own"
    assert answer["made"] == ["two"]
    assert (tmp_path / "one").read_text() == "the operator's own\n"


def test_check_mode_gives_placeholders_and_makes_nothing(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "keys"
    answer = ask(capsys, folder, _ansible_check_mode=True)
    assert answer["changed"] is True
    assert set(answer["secrets"].values()) == {rota_keys.PLACEHOLDER}
    assert not folder.exists()


def test_an_empty_file_is_no_secret(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "one").touch()
    answer = ask(capsys, tmp_path)
    assert answer["failed"] is True
    assert answer["msg"].startswith(f"{tmp_path}/one is empty.")
    assert not (tmp_path / "two").exists()


def test_a_damaged_file_is_no_secret(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "one").write_bytes(b"\xff\xfe\x00")
    answer = ask(capsys, tmp_path)
    assert answer["failed"] is True
    assert answer["msg"].startswith(f"{tmp_path}/one holds no text.")


def test_two_that_make_it_at_once_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=10)
    link = os.link

    def linked_together(draft: str, path: Path) -> None:
        both.wait()
        link(draft, path)

    monkeypatch.setattr(os, "link", linked_together)
    given: list[str] = []
    makers = [threading.Thread(target=lambda: given.append(rota_keys.make(tmp_path / "key"))) for _ in "ab"]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(timeout=10)
    assert given == [(tmp_path / "key").read_text()] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
