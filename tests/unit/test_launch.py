"""What a command becomes, and that an environment arrives byte for byte."""

import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.agent import launch
from rota.agent.launch import CommandError, process, read, words, written

LAUNCH = Path(launch.__file__)
NAMES = st.from_regex(launch.NAME, fullmatch=True).filter(lambda name: len(name) < 40)
VALUES = st.binary(max_size=200).map(lambda value: value.replace(b"\0", b"\1"))
SHOW = (
    "import os, sys; sys.stdout.buffer.write(b'\\0'.join(os.fsencode(each) for each in sys.argv[1:])"
    " + b'\\0\\0' + open('/proc/self/environ', 'rb').read())"
)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("gunicorn app:app -b 0.0.0.0:$PORT", ["gunicorn", "app:app", "-b", "0.0.0.0:8000"]),
        ("a  ${PORT}x \t'$PORT' \"$PORT \"", ["a", "8000x", "$PORT", "8000 "]),
        ("a ${MISSING:-5000} ${PORT:-5000} x$MISSING", ["a", "5000", "8000", "x"]),
        (r"a \$PORT b\ c \"d", ["a", "$PORT", "b c", '"d']),
        ('a \'\' "" "it\'s"', ["a", "", "", "it's"]),
        ("a $WORDS", ["a", "two words"]),
        ('a "x & y | z > (w)" "\\$PORT \\x"', ["a", "x & y | z > (w)", "$PORT \\x"]),
        ("sh -c 'a && b | c'", ["sh", "-c", "a && b | c"]),
        ("a * ? [x] ~ # {a,b} ^foo$", ["a", "*", "?", "[x]", "~", "#", "{a,b}", "^foo$"]),
        ("", []),
    ],
)
def test_a_command_is_split_as_a_shell_would_without_being_one(command: str, expected: list[str]) -> None:
    assert words(command, {"PORT": "8000", "WORDS": "two words", "EMPTY": ""}) == expected


@pytest.mark.parametrize(
    "command",
    [
        *("a && b", "a | b", "a; b", "a > b", "a < b", "a &", "(a)", "a `b`", "a $(b)", "a ${b}$(c)"),
        *("a $1", "a $?", "a ${x:=y}", "a\nb", "a 'b", 'a "b', "a \\", '"$(a)"', '"`a`"'),
    ],
)
def test_what_only_a_shell_can_do_is_refused_with_what_to_write(command: str) -> None:
    with pytest.raises(CommandError, match=r"needs a shell: write sh -c|does not end"):
        words(command, {})


def test_assignments_stand_before_the_program() -> None:
    assert process("A=1 B='x y' run C=3", {"A": "0"}) == (["run", "C=3"], {"A": "1", "B": "x y"})
    for nothing in ("", "A=1", "''"):
        with pytest.raises(CommandError, match="names no program"):
            process(nothing, {})


@given(st.lists(st.text(st.characters(blacklist_characters="\n", blacklist_categories=["Cs"])), max_size=5))
def test_what_is_quoted_for_a_shell_arrives(arguments: list[str]) -> None:
    assert words(shlex.join(arguments), {"x": "y"}) == arguments


@given(st.text(), st.dictionaries(NAMES, st.text()))
def test_a_command_is_split_or_refused_and_nothing_else(command: str, environment: dict[str, str]) -> None:
    with suppress(CommandError):
        process(command, environment)


@given(st.dictionaries(NAMES, VALUES))
def test_the_file_is_read_as_it_was_written(environment: dict[str, bytes]) -> None:
    command, found = read(written("run it", environment))
    assert command == "run it"
    assert {name: value.encode("utf-8", "surrogateescape") for name, value in found.items()} == environment


@given(st.dictionaries(NAMES.filter(lambda name: name != "LC_CTYPE"), VALUES, max_size=4))
@settings(max_examples=12, deadline=None)
def test_any_bytes_without_nul_arrive_unchanged(environment: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        command = shlex.join([sys.executable, "-I", "-c", SHOW]) + " ${GIVEN:-none}"
        Path(directory, "configuration").write_bytes(written(command, environment))
        done = subprocess.run(
            [sys.executable, "-I", "-S", LAUNCH],
            env={"CREDENTIALS_DIRECTORY": directory},
            capture_output=True,
            check=True,
        )
    argument, _, found = done.stdout.partition(b"\0\0")
    assert argument == environment.get("GIVEN", b"") or b"none"
    variables = dict(each.split(b"=", 1) for each in found.split(b"\0") if each)
    assert variables == {os.fsencode(name): value for name, value in environment.items()}


def test_what_cannot_be_started_says_why() -> None:
    cases = {
        "no-such-program": (127, "no such program"),
        "a && b": (78, "needs a shell"),
        "/etc": (126, "denied"),
    }
    for command, (code, reason) in cases.items():
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "configuration").write_bytes(written(command, {"PATH": b"/usr/bin"}))
            done = subprocess.run(
                [sys.executable, "-I", "-S", LAUNCH],
                env={"CREDENTIALS_DIRECTORY": directory},
                capture_output=True,
                check=False,
                text=True,
            )
        assert (done.returncode, reason in done.stderr) == (code, True), done.stderr


def test_nothing_is_written_where_no_reader_is() -> None:
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            [sys.executable, "-I", "-S", LAUNCH],
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
        )
    assert (done.returncode, "reader of output" in done.stderr) == (78, True)
