"""Several hubs, each known by a name."""

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rota.cli import contexts, rota
from rota.cli.client import DEFAULT_URL, Target, target
from rota.cli.contexts import Context, Contexts, named_after
from rota.errors import EXIT_CONFIG, EXIT_FAILED, NotFoundError, RotaError

PROD = Context("https://rota.example.org", "rota_prod", 1)
TEST = Context("http://127.0.0.1:8420", "rota_test", None)


@pytest.fixture(autouse=True)
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ROTA_URL", "ROTA_TOKEN", "ROTA_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    contexts.change(lambda known: known.adding("test", TEST).adding("prod", PROD))
    return contexts.file()


def say(*argv: str) -> str:
    done = CliRunner().invoke(rota, argv)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_last_one_signed_in_at_is_in_use(two: Path) -> None:
    assert target() == Target(PROD.url, PROD.token)
    assert stat.S_IMODE(two.stat().st_mode) == 0o600
    assert [path.name for path in two.parent.iterdir()] == [two.name]


def test_another_one_is_chosen_for_good_or_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert say("context", "use", "test") == f"Commands talk to test, at {TEST.url}.\n"
    assert target() == Target(TEST.url, TEST.token)
    monkeypatch.setenv("ROTA_CONTEXT", "prod")
    assert target() == Target(PROD.url, PROD.token)
    monkeypatch.setenv("ROTA_CONTEXT", "none")
    with pytest.raises(NotFoundError, match="no context 'none'"):
        target()


def test_a_list_shows_no_token() -> None:
    assert say("context", "list") == (
        "   NAME  HUB\n*  prod  https://rota.example.org\n   test  http://127.0.0.1:8420\n"
    )
    assert json.loads(say("context", "list", "--json"))[0] == {
        "name": "prod",
        "url": PROD.url,
        "current": True,
    }


def test_a_kept_token_goes_to_its_own_hub_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_URL", "https://elsewhere.example")
    assert target() == Target("https://elsewhere.example", "")
    monkeypatch.setenv("ROTA_URL", TEST.url + "/")
    assert target() == Target(TEST.url, TEST.token)
    monkeypatch.setenv("ROTA_TOKEN", "rota_given")
    assert target() == Target(TEST.url, "rota_given")


def test_the_option_wins_over_every_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("ROTA_TOKEN", "rota_given")
    monkeypatch.setenv("ROTA_CONTEXT", "prod")
    asked: list[Target] = []

    def call(*_: object) -> dict[str, list[object]]:
        asked.append(target())
        return {"apps": []}

    monkeypatch.setattr("rota.cli.client.call", call)
    say("--context", "test", "apps")
    assert asked == [Target(TEST.url, TEST.token)]


def test_without_the_one_in_use_a_person_chooses(two: Path) -> None:
    contexts.change(lambda known: known.without("prod"))
    with pytest.raises(RotaError, match="no context is in use"):
        target()
    contexts.change(lambda known: known.without("test"))
    assert not two.exists()
    assert target() == Target(DEFAULT_URL, "")


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"current": "x", "contexts": {"x": {}}}', '{"contexts": 1}']
)
def test_a_damaged_file_is_named_and_not_written_over(two: Path, text: str) -> None:
    two.write_text(text)
    with pytest.raises(RotaError, match=r"contexts\.json cannot be read"):
        target()
    with pytest.raises(RotaError, match="cannot be read"):
        contexts.change(lambda known: known)
    assert two.read_text() == text


def test_two_commands_at_once_lose_nothing() -> None:
    def add(name: str) -> None:
        contexts.change(lambda known: known.adding(name, TEST))

    threads = [threading.Thread(target=add, args=(f"c{n}",)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(contexts.read().known) == 22


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://rota.example.org", "rota.example.org"),
        ("https://Rota.Example.org:443", "rota.example.org"),
        ("http://127.0.0.1:8420", "127.0.0.1-8420"),
        ("http://[::1]:80", "1"),
        ("http://", "hub"),
    ],
)
def test_a_hub_is_named_after_its_host(url: str, name: str) -> None:
    assert named_after(url) == name
    assert Contexts(known={"mine": Context(url, "", None)}).name_of(url) == "mine"


@given(st.from_regex(r"https?://[^/\s@:\[\]]{0,80}", fullmatch=True))
def test_every_such_name_can_be_given_again(url: str) -> None:
    contexts.checked(named_after(url))


def test_completion_knows_commands_options_and_groups() -> None:
    def completed(*words: str) -> list[str]:
        shell = BashComplete(rota, {}, "rota", "_ROTA_COMPLETE")
        return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]

    assert completed("dep") == ["deploy"]
    assert "rollback" in completed("")
    assert "--context" in completed("--c")
    assert completed("server", "en") == ["enrol"]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_is_told_how_to_complete(shell: str) -> None:
    lines = say("completion", shell)
    assert f"_ROTA_COMPLETE={shell}_complete" in lines


def test_completing_a_command_imports_none() -> None:
    program = (
        "import sys; from click.shell_completion import BashComplete; from rota.cli import rota; "
        "BashComplete(rota, {}, 'rota', 'X').get_completions([], 'd'); "
        "sys.exit(any(name.startswith('rota.cli.') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], env=dict(os.environ), check=False).returncode == 0


def test_the_exit_codes_are_documented() -> None:
    text = " ".join(say("--help").split())
    for code in (0, EXIT_FAILED, 2, EXIT_CONFIG, 130):
        assert f" {code} " in text
