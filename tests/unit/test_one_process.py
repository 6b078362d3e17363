"""That a SQLite hub is one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rota.errors import EXIT_CONFIG, InstanceError, RotaError
from rota.store.one_process import claim_one_process


def test_a_second_claim_is_refused_and_names_the_first(tmp_path: Path) -> None:
    held = claim_one_process(tmp_path / "rota.lock")
    with pytest.raises(InstanceError) as caught:
        claim_one_process(tmp_path / "rota.lock")
    assert f"process {os.getpid()} already serves {tmp_path}: stop it first" in str(caught.value)
    assert caught.value.exit_code == EXIT_CONFIG
    os.close(held)
    os.close(claim_one_process(tmp_path / "rota.lock"))


def test_the_claim_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, signal, sys; from rota.store.one_process import claim_one_process\n"
        "claim_one_process(pathlib.Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "rota.lock")], check=False)
    assert (tmp_path / "rota.lock").read_text().isdigit()
    os.close(claim_one_process(tmp_path / "rota.lock"))
    assert (tmp_path / "rota.lock").read_text() == str(os.getpid())


def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "rota.lock").mkdir()
    with pytest.raises(RotaError, match=r"rota\.lock: Is a directory: it must be a file"):
        claim_one_process(tmp_path / "rota.lock")


def test_on_a_full_disk_the_claim_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    held = claim_one_process(tmp_path / "rota.lock")
    with pytest.raises(InstanceError, match="process unknown already serves"):
        claim_one_process(tmp_path / "rota.lock")
    os.close(held)


def test_its_file_is_for_its_own_user_alone(tmp_path: Path) -> None:
    os.close(claim_one_process(tmp_path / "new" / "rota.lock"))
    assert (tmp_path / "new" / "rota.lock").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
