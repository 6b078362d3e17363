"""Writes docs/reference/settings.md and docs/reference/cli.md from the program itself."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import click

from rota.cli import rota
from rota.secret import Secret
from rota.settings.describe import credential_name
from rota.settings.model import key_types

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
MADE = (
    "<!-- Made by tools/reference.py from {source}: change that, then run `python tools/reference.py`. -->\n"
)
_KINDS = {bool: "true or false", int: "whole number", str: "text", Path: "directory", Secret: "secret"}


@dataclass(frozen=True)
class Documented:
    """One setting as hub.toml has it."""

    section: str
    key: str
    default: str
    comment: str


def pages() -> dict[str, str]:
    """Return file name → text of every page made here."""
    return {"settings.md": settings_page(), "cli.md": cli_page()}


def settings_page() -> str:
    """Return the page of settings, in hub.toml's order and words."""
    text = resources.files("rota").joinpath("hub.toml").read_text(encoding="utf-8")
    head, _, body = text.partition("\n\n")
    lines = [
        MADE.format(source="app/rota/hub.toml"),
        "# Settings",
        "",
        "What the packaged `hub.toml` says of itself:",
        "",
        _quoted(head),
        "",
    ]
    section = ""
    for setting in documented(body):
        if setting.section != section:
            section = setting.section
            lines += [f"## [{section}]", ""]
        lines += [f"### {section}.{setting.key}", "", setting.comment, "", _facts(setting), ""]
    return "\n".join(lines)


def documented(text: str) -> Iterator[Documented]:
    """Yield each setting with the comment above it."""
    section, comment = "", ""
    for line in text.splitlines():
        if line.startswith("#"):
            comment += line + "\n"
        elif match := re.fullmatch(r"\[(\w+)\]", line):
            section, comment = match[1], ""
        elif match := re.fullmatch(r"(\w+) = (.*)", line):
            yield Documented(section, match[1], match[2], _prose(comment))
            comment = ""


def cli_page() -> str:
    """Return the page of commands: what each says with --help."""
    lines = [MADE.format(source="the commands in app/rota/cli"), "# Commands", ""]
    for context in commands(rota, "rota"):
        lines += [f"## {context.command_path}", "", "```text", context.get_help(), "```", ""]
    return "\n".join(lines)


def commands(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[click.Context]:
    """Yield the context of a command and of all below it, as when they are called."""
    context = click.Context(
        command, parent, info_name=name, terminal_width=80, max_content_width=80, **command.context_settings
    )
    yield context
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None:
                yield from commands(found, below, context)


def _facts(setting: Documented) -> str:
    kind: Any = key_types()[setting.section][setting.key]
    facts = [
        f"Default `{setting.default}`",
        _KINDS.get(kind, "list of names"),
        f"environment `ROTA_{setting.section.upper()}_{setting.key.upper()}`",
    ]
    if kind is Secret:
        facts.append(f"credential `{credential_name(setting.section, setting.key)}`")
    return " · ".join(facts)


def _quoted(comment: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in _prose(comment).splitlines())


def _prose(comment: str) -> str:
    return "\n".join(line.removeprefix("#").strip() for line in comment.strip().splitlines())


def main() -> int:
    """Write each page that is not current; name those written."""
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        path = REFERENCE / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
