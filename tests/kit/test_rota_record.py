"""A unit's record differs exactly when something that it runs differs."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

RECORDER = Path(__file__).parents[2] / "units" / "rota-record.py"


def record(*arguments: str) -> dict[str, str]:
    argv = [sys.executable, "-I", str(RECORDER), *arguments]
    text = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(text)) if text else {}


@pytest.fixture
def host(tmp_path: Path) -> Path:
    (tmp_path / "releases").mkdir()
    (tmp_path / "current").symlink_to("releases/old")
    (tmp_path / "hub.toml").write_text("a = 1\n")
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "database-password").write_text("one")
    (tmp_path / "web.service").write_text("[Service]\n")
    return tmp_path


def switch(host: Path) -> None:
    (host / "current").unlink()
    (host / "current").symlink_to("releases/new")


def drop_in(host: Path) -> None:
    (host / "web.service.d").mkdir()
    (host / "web.service.d" / "x.conf").touch()


CHANGES: dict[str, Callable[[Path], object]] = {
    "release": switch,
    "settings": lambda host: (host / "hub.toml").write_text("a = 2\n"),
    "credentials": lambda host: (host / "credentials" / "database-password").write_text("two"),
    "unit": drop_in,
}


def parts(host: Path) -> list[str]:
    unit = f"{host}/web.service:{host}/web.service.d"
    named = {"release": "current", "settings": "hub.toml", "credentials": "credentials"}
    return [*(f"{part}={host}/{path}" for part, path in named.items()), f"unit={unit}"]


@pytest.mark.parametrize("part", CHANGES)
def test_each_change_shows_in_its_own_part(host: Path, part: str) -> None:
    before = record(*parts(host))
    CHANGES[part](host)
    after = record(*parts(host))
    assert {name for name in before if before[name] != after[name]} == {part}


def test_what_is_written_at_start_equals_what_is_printed_later(host: Path) -> None:
    record("--into", str(host / "releases"), *parts(host))
    written = host / "releases" / "running"
    assert json.loads(written.read_text()) == record(*parts(host))
    assert written.stat().st_mode & 0o7777 == 0o600


def test_credentials_count_by_name_and_content_wherever_they_lie(host: Path, tmp_path: Path) -> None:
    (tmp_path / "loaded").mkdir()
    (tmp_path / "loaded" / "database-password").write_text("one")
    assert record(f"c={host}/credentials") == record(f"c={tmp_path}/loaded")


def test_nothing_there_is_a_state_too(tmp_path: Path) -> None:
    assert record(f"a={tmp_path}/none") == record(f"a={tmp_path}/never")
