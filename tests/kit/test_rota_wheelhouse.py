"""The wheelhouse is a function of the source: same source, same bytes, same name."""

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from plugins.modules import rota_wheelhouse as house

ROOT = Path(__file__).parents[2]


@pytest.fixture
def wheels(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}-1.0-py3-none-any.whl" for name in ("alpha", "beta")]
    for path in paths:
        path.write_text(path.name)
    return paths


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "source"
    shutil.copytree(ROOT / "app", top / "app", ignore=shutil.ignore_patterns("__pycache__"))
    for name in house.INPUTS:
        shutil.copy(ROOT / name, top / name)
    return top


def test_the_name_is_of_what_the_wheels_hold_in_any_order(wheels: list[Path]) -> None:
    name = house.release_name(wheels)
    assert len(name) == house.NAME_DIGITS
    assert name == house.release_name(wheels[::-1])
    wheels[0].write_text("other")
    assert name != house.release_name(wheels)


def test_two_archives_are_the_same_bytes_and_lock_their_wheels(wheels: list[Path], tmp_path: Path) -> None:
    for name in ("one", "two"):
        house.pack(wheels, tmp_path / f"{name}.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as bundle:
        lock = bundle.read("requirements.lock").decode().splitlines()
    assert [line.split(" --hash=sha256:")[0] for line in lock] == ["alpha==1.0", "beta==1.0"]


def test_two_builds_of_the_program_are_identical(source: Path, tmp_path: Path) -> None:
    built = []
    for name in ("one", "two"):
        into = tmp_path / name
        subprocess.run(house.wheel_command(source, into), check=True, capture_output=True)
        built.append([path.read_bytes() for path in into.iterdir()])
    assert len(built[0]) == 1
    assert built[0] == built[1]


def test_every_source_file_counts_and_nothing_else(source: Path) -> None:
    before = house.inputs_hash(source, "3.13", "x86_64")
    (source / "app" / "rota" / "__pycache__").mkdir()
    (source / "app" / "rota" / "__pycache__" / "x.pyc").touch()
    (source / "notes.txt").touch()
    assert house.inputs_hash(source, "3.13", "x86_64") == before
    assert house.inputs_hash(source, "3.11", "x86_64") != before
    (source / "app" / "rota" / "fresh.py").touch()
    assert house.inputs_hash(source, "3.13", "x86_64") != before


def test_the_same_source_is_built_once(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds = []

    def build(*_: object) -> str:
        builds.append(1)
        (tmp_path / "abc.zip").touch()
        return "abc"

    monkeypatch.setattr(house, "build", build)
    for _ in range(2):
        assert house.wheelhouse(source, tmp_path, "3.13", "x86_64") == "abc"
    assert len(builds) == 1
    (tmp_path / "abc.zip").unlink()
    house.wheelhouse(source, tmp_path, "3.13", "x86_64")
    assert len(builds) == 2


def test_wheels_are_only_taken_by_hash() -> None:
    command = house.download_command(ROOT, Path("wheels"), "3.13", "aarch64")
    assert {"--require-hashes", "--no-deps", "--only-binary=:all:", "--python-version=3.13"} <= set(command)
    assert "--platform=manylinux_2_28_aarch64" in command
