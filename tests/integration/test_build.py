"""The wheel: the same bytes from the same source, with everything that the program reads."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def build(target: Path) -> Path:
    target.mkdir()
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--no-build-isolation"),
            *("--no-cache-dir", "--wheel-dir", str(target), str(ROOT)),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return next(target.glob("rota-*.whl"))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build twice."""
    scratch = tmp_path_factory.mktemp("wheels")
    return build(scratch / "first"), build(scratch / "second")


def test_two_builds_are_identical(wheels: tuple[Path, Path]) -> None:
    assert wheels[0].read_bytes() == wheels[1].read_bytes()


def test_the_wheel_holds_every_file_of_the_package(wheels: tuple[Path, Path]) -> None:
    package = ROOT / "app" / "rota"
    wanted = {
        f"rota/{path.relative_to(package)}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheels[0]) as wheel:
        assert wanted <= set(wheel.namelist())
