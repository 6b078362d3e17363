"""`rota config`: values come from files and standard input, never from a command line, which others see."""

import base64
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

app = click.argument("app")
as_json = click.option("--json", "as_json", is_flag=True, help="For programs.")
a_file = click.Path(path_type=Path, dir_okay=False, exists=True, allow_dash=True)


@click.group("config")
def command() -> None:
    """An app's configuration: a change makes a release and deploys it."""


@command.command("set")
@app
@click.argument("name")
@click.option("--file", type=a_file, help="Where the value is; else standard input, or a question.")
@as_json
def set_(*, app: str, name: str, file: Path | None, as_json: bool) -> None:
    """Set the value NAME of APP to the very bytes that come: printf %s VALUE | rota config set APP NAME."""
    if "=" in name:
        known = name.partition("=")[0]
        raise click.UsageError(
            "A value on a command line can be read by every user of this machine, and stays in its history. "
            f"Write: printf %s VALUE | rota config set {app} {known}, or --file PATH."
        )
    value = _value(name, file)
    _change(app, {"set": {name: base64.b64encode(value).decode()}}, as_json=as_json)


@command.command("unset")
@app
@click.argument("names", nargs=-1, required=True)
@as_json
def unset(*, app: str, names: tuple[str, ...], as_json: bool) -> None:
    """Take the values NAMES of APP away."""
    _change(app, {"unset": list(names)}, as_json=as_json)


@command.command("get")
@app
@click.argument("name", required=False)
@as_json
def get(*, app: str, name: str | None, as_json: bool) -> None:
    """Print the value NAME of APP, byte for byte; without NAME list the names. Reading a value is an act."""
    if name is not None:
        found = _call("POST", f"{_path(app)}/values", {"names": [name]})
        click.echo(base64.b64decode(found["values"][name]), nl=False)
        return
    found = _call("GET", _path(app))
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif not found["names"]:
        click.echo(f"{app} has no configuration: `rota config set {app} NAME` sets a value.")
    for each in () if as_json else found["names"]:
        _say(f"{each['name']:<32} {each['size']:>7} bytes  {each['version']}")


@command.command("import")
@app
@click.argument("file", type=a_file, default="-")
@click.option("--format", "form", type=click.Choice(["lines", "json"]), help="[default: by the file's name]")
@as_json
def import_(*, app: str, file: Path, form: str | None, as_json: bool) -> None:
    """Set all values of FILE in one change of APP: NAME=value lines, or JSON. - is standard input."""
    from rota.configuration.formats import LONGEST, read_json, read_lines

    data = _read(file, LONGEST)
    reading = read_json if form == "json" or (form is None and file.suffix == ".json") else read_lines
    values = {name: base64.b64encode(value).decode() for name, value in reading(data).items()}
    _change(app, {"set": values}, as_json=as_json)


@command.command("key")
def key() -> None:
    """Print a new key for the credential configuration-key, which opens a cluster's configuration."""
    from rota.configuration.vault import new_key

    click.echo(new_key())


def _value(name: str, file: Path | None) -> bytes:
    from rota.configuration.names import LONGEST

    if file is None and sys.stdin.isatty():
        return str(click.prompt(name, hide_input=True, confirmation_prompt=True)).encode()
    return _read(file or Path("-"), LONGEST)


def _read(file: Path, longest: int) -> bytes:
    """Read a file or standard input, one byte more than may be at most: the hub says that it is too long."""
    if str(file) == "-":
        return sys.stdin.buffer.read(longest + 1)
    with file.open("rb") as opened:
        return opened.read(longest + 1)


def _change(app: str, change: dict[str, Any], *, as_json: bool) -> None:
    made = _call("POST", _path(app), change)
    if as_json:
        click.echo(json.dumps(made, indent=2))
        return
    line = f"{app}  configuration {made['number']}"
    if made["release"]:
        line += f"  v{made['release']}"
    if made["deploy"]:
        line += f"  is being deployed: deploy {made['deploy']}"
    _say(f"{line}  {made['reason']}")


def _call(method: str, path: str, body: object = None) -> Any:
    from rota.cli.client import call

    return call(method, path, body)


def _say(line: str) -> None:
    from rota.cli.client import tell

    tell(line)


def _path(app: str) -> str:
    return f"/api/apps/{quote(app, safe='')}/config"
