"""Options that several commands share, and the settings they lead to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from rota.settings import Loaded, load

Command = Callable[..., Any]


def shared(command: Command) -> Command:
    """Add --data and --settings to a command."""
    command = click.option(
        "--settings",
        "file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The settings file.  [default: /etc/rota/hub.toml where it exists]",
    )(command)
    return click.option("--data", metavar="DIR", help="The data directory.  [default: data]")(command)


def settings_from(file: Path | None, data: str | None, role: str | None = None) -> Loaded:
    """Load the settings with these options on top. An empty option overrides nothing."""
    options = {}
    if data:
        options["server.data"] = data
    if role is not None and role.replace(",", " ").strip():
        options["server.roles"] = role
    return load(file=file, options=options)
