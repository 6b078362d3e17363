"""Becomes an app's process, with exactly the environment that its configuration says.

What is launched comes as one file: the command, then NAME=value for each variable, a NUL byte after each.
The kit copies this module to /opt/rota/libexec, where it runs on the host's own Python as the app's user.
"""

import os
import re
import signal
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

MISSING, NO_PROGRAM, WRONG = 127, 126, 78  # exit codes, as shells and sysexits have them
NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_ANYWHERE = (
    rf"(?P<quote>\")|\\(?P<escaped>.)|\$(?P<name>{NAME})|\$\{{(?P<braced>{NAME})(?::-(?P<default>[^}}$`]*))?\}}"
    r"|(?P<refused>\$[({?!@*#$0-9-]|`)"
)
_BARE = re.compile(
    rf"{_ANYWHERE}|(?P<space>[ \t]+)|'(?P<single>[^']*)'|(?P<meta>&&|\|\||[|&;<>()\n])"
    r"|(?P<text>[^ \t'\"\\$`\n|&;<>()]+|\$)"
)
_QUOTED = re.compile(rf"{_ANYWHERE}|(?P<text>[^\"\\$`]+|\$)")
_ASSIGNMENT = re.compile(rf"({NAME})=(.*)", re.DOTALL)


class CommandError(ValueError):
    """A command is not what this platform runs; the message says why."""


def words(command: str, environment: Mapping[str, str]) -> list[str]:
    """Split a command into words, as a shell does without being one.

    Single quotes, double quotes and backslashes mean what they mean in a shell; `$NAME`, `${NAME}` and
    `${NAME:-default}` stand for a variable, empty if it is not set, and are never split again. What only a
    shell can do (pipes, `&&`, `$(…)`, redirections) is refused. Raises CommandError.
    """
    found: list[str] = []
    word: str | None = None
    quoted, at = False, 0
    while at < len(command):
        token = (_QUOTED if quoted else _BARE).match(command, at)
        if token is None:
            raise CommandError(f"a quote or a backslash at sign {at + 1} does not end")
        at, kind = token.end(), token.lastgroup
        if kind == "quote":
            quoted, word = not quoted, word or ""
        elif kind == "space":
            found += [word] if word is not None else []
            word = None
        elif kind in ("refused", "meta"):
            raise CommandError(f"{token[0].strip() or 'a new line'} needs a shell: write sh -c '…'")
        else:
            word = (word or "") + _said(token, environment, quoted)
    if quoted:
        raise CommandError("a double quote does not end")
    return [*found, word] if word is not None else found


def _said(token: re.Match[str], environment: Mapping[str, str], quoted: bool) -> str:  # noqa: FBT001
    """Return what a token stands for."""
    name = token["name"] or token["braced"]
    if name:
        return environment.get(name) or token["default"] or ""
    if token["escaped"] is not None:
        return token[0] if quoted and token["escaped"] not in '"\\$`' else str(token["escaped"])
    return token[0][1:-1] if token.lastgroup == "single" else token[0]


def process(command: str, environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the argv and the environment of a command, which may begin with NAME=value words.

    Raises CommandError.
    """
    argv, whole = words(command, environment), dict(environment)
    while argv and (assignment := _ASSIGNMENT.fullmatch(argv[0])):
        whole[assignment[1]] = assignment[2]
        argv.pop(0)
    if not argv or not argv[0]:
        raise CommandError("the command names no program")
    return argv, whole


def written(command: str, environment: Mapping[str, bytes]) -> bytes:
    """Return the file from which a process is launched."""
    variables = (name.encode() + b"=" + value for name, value in environment.items())
    return b"".join(each + b"\0" for each in (command.encode(), *variables))


def read(data: bytes) -> tuple[str, dict[str, str]]:
    """Return the command and the environment of such a file; bytes that are no UTF-8 become surrogates."""
    command, *variables = (
        each.decode("utf-8", "surrogateescape") for each in data.removesuffix(b"\0").split(b"\0")
    )
    return command, dict(each.split("=", 1) for each in variables)


def become(argv: list[str], environment: Mapping[str, str]) -> None:
    """Become a program; returns never, or exits with the reason."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, which would be inherited
    whole = {
        name.encode("utf-8", "surrogateescape"): value.encode("utf-8", "surrogateescape")
        for name, value in environment.items()
    }
    try:
        os.execvpe(argv[0], [each.encode("utf-8", "surrogateescape") for each in argv], whole)  # noqa: S606
    except FileNotFoundError:
        _end(f"{argv[0]}: there is no such program in {environment.get('PATH', 'the PATH')}", MISSING)
    except OSError as error:
        _end(f"{argv[0]}: {error.strerror}", NO_PROGRAM)


def main() -> None:
    """Launch what the credential `configuration` says."""
    if stat.S_ISREG(os.fstat(1).st_mode):
        _end("the reader of output is not there; this starts again in a moment", WRONG)
    data = Path(os.environ["CREDENTIALS_DIRECTORY"], "configuration").read_bytes()
    try:
        argv, environment = process(*read(data))
    except CommandError as error:
        _end(str(error), WRONG)
    become(argv, environment)


def _end(reason: str, code: int) -> None:
    sys.stderr.write(f"rota: {reason}\n")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
