"""The Procfile: which process types an app has, and the command of each. Any error refuses the whole file."""

import re
from collections.abc import Iterator

from rota.agent.launch import CommandError, words
from rota.errors import InputError

LONGEST = 65_536  # bytes
MOST = 50  # process types
LONGEST_COMMAND = 4000
RELEASE = "release"  # the type that is no process but the release hook

_LINE = re.compile(r"(?P<name>[^:\s]+)[ \t]*:[ \t]*(?P<command>.*?)[ \t]*")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,15}")


def parse(data: bytes) -> dict[str, str]:
    """Return process type → command. Raises InputError that names every wrong line."""
    if len(data) > LONGEST:
        raise InputError(f"The Procfile has {len(data)} bytes, and {LONGEST} is the most.", "Shorten it.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"Procfile line {line}: it is not UTF-8.", "Save the file as UTF-8.") from error
    found, wrong = dict[str, tuple[int, str]](), list[str]()
    for number, written in enumerate(text.split("\n"), 1):
        problems = _take(found, number, written.removesuffix("\r"))
        wrong += [f"Procfile line {number}: {problem}" for problem in problems]
    if not wrong and not found:
        wrong = ["Procfile: it names no process type"]
    if len(found) > MOST:
        wrong.append(f"Procfile: {len(found)} process types, and {MOST} is the most")
    if wrong:
        raise InputError("\n".join(wrong) + ".", "Each line is NAME: COMMAND, as web: gunicorn shop:app.")
    return {name: command for name, (_, command) in found.items()}


def checked_command(command: str) -> str:
    """Return a command. Raises CommandError for what cannot be run without a shell."""
    if len(command) > LONGEST_COMMAND:
        raise CommandError(f"a command has {LONGEST_COMMAND} signs at most")
    if any((ord(sign) < ord(" ") and sign != "\t") or sign == "\x7f" for sign in command):
        raise CommandError("a command holds no control characters")
    if not words(command, {}) and not words(command, {"": ""}):
        raise CommandError("the command is empty")
    return command


def _take(found: dict[str, tuple[int, str]], number: int, line: str) -> Iterator[str]:
    """Take one line; yield what is wrong with it."""
    if not line.strip() or line.lstrip().startswith("#"):
        return
    match = _LINE.fullmatch(line)
    if match is None:
        yield "it is not NAME: COMMAND"
        return
    name, command = match["name"], match["command"]
    if not _NAME.fullmatch(name):
        yield f"{name[:40]!r} names no process type: lower-case letters, digits, _ and -, 16 at most"
    elif name in found:
        yield f"{name} stands in line {found[name][0]} already"
    try:
        checked_command(command)
    except CommandError as error:
        yield str(error)
    found.setdefault(name, (number, command))
