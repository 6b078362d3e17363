"""`rota.toml`: how an app is built and run, as whoever wrote the app says it."""

import re
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rota.agent.launch import CommandError
from rota.builds.procfile import checked_command
from rota.configuration.names import checked_name
from rota.errors import InputError
from rota.wire.statements import Health, Limits, Process, ProcessType, Requires

LONGEST = 65_536  # bytes
SEE = "docs/reference/apps.md describes rota.toml."
ADDONS = ("postgresql", "sasl")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"(\d{1,9})([kmg]?)", re.IGNORECASE)

BuildKind = Literal["python", "nodejs", "static", "command"]


class _Table(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A table whose keys are all known."""


class Build(_Table, kw_only=True):
    """How the artifact is made. `directory` is where static files lie."""

    kind: BuildKind | None = None
    command: str | list[str] = ""
    directory: str = ""


class ProcessTable(_Table, kw_only=True):
    """One process type. Without a command the Procfile's counts."""

    command: str = ""
    singleton: bool = False
    memory: str | int = 0
    processors: Annotated[float, Meta(ge=0, le=1024)] = 0.0
    grace: Annotated[int, Meta(ge=1, le=600)] = 10
    health: Health | None = None


class Hooks(_Table, kw_only=True):
    """Commands that run once: `build` at the end of the build, `release` before a release serves."""

    build: str = ""
    release: str = ""


class RequiresTable(_Table, kw_only=True):
    """What the servers must offer."""

    virtualisation: bool = False
    memory: str | int = 0
    processors: Annotated[int, Meta(ge=0, le=1024)] = 0
    storage: bool = False
    database: bool = False
    primary: bool = False


class Variable(_Table, kw_only=True):
    """A value that the app reads: one with a `default`, or one that somebody must set if it is `required`."""

    default: str | None = None
    required: bool = False
    description: str = ""


class Recipe(_Table, kw_only=True):
    """The whole file."""

    build: Build = msgspec.field(default_factory=Build)
    processes: dict[ProcessType, str | ProcessTable] = msgspec.field(default_factory=dict)
    health: Health | None = None
    hooks: Hooks = msgspec.field(default_factory=Hooks)
    requires: RequiresTable = msgspec.field(default_factory=RequiresTable)
    env: dict[str, str | Variable] = msgspec.field(default_factory=dict)
    addons: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)

    @property
    def variables(self) -> dict[str, Variable]:
        """The values that the app reads, by name."""
        return {
            name: Variable(default=each) if isinstance(each, str) else each for name, each in self.env.items()
        }


def parse(data: bytes) -> Recipe:
    """Read the file. Raises InputError, which refuses all of it."""
    if len(data) > LONGEST:
        raise _wrong(f"it has {len(data)} bytes, and {LONGEST} is the most")
    try:
        document = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong(str(error)) from error
    if "schedule" in document:
        raise InputError(
            "rota.toml: [schedule] is not understood yet: this release starts nothing by the clock.",
            "Take it away until `rota --version` is one that has flow.scheduler.",
        )
    try:
        recipe = msgspec.convert(document, Recipe)
        _check(recipe)
    except (msgspec.ValidationError, CommandError) as error:
        raise _wrong(str(error)) from error
    return recipe


def processes(recipe: Recipe, commands: Mapping[str, str]) -> dict[str, Process]:
    """Return the process types: those of the file, over those of the Procfile. Raises InputError."""
    tables = {
        name: ProcessTable(command=each) if isinstance(each, str) else each
        for name, each in recipe.processes.items()
    }
    found = {}
    for name in sorted({*tables, *commands}):
        table = tables.get(name, ProcessTable())
        command = table.command or commands.get(name, "")
        if not command:
            raise _wrong(f"[processes.{name}] has no command, and the Procfile has none for it")
        well = Health() if name == "web" else Health(kind="process")
        found[name] = Process(
            command=command,
            singleton=table.singleton,
            health=table.health or (recipe.health if name == "web" else None) or well,
            limits=Limits(memory=_bytes(table.memory), processors=round(table.processors * 1000)),
            grace=table.grace,
        )
    return found


def requires(recipe: Recipe) -> Requires:
    """Return what the servers must offer; an addon may add to what the file says."""
    table = recipe.requires
    return Requires(
        virtualisation=table.virtualisation,
        memory=_bytes(table.memory),
        processors=table.processors,
        storage=table.storage,
        database=table.database or "postgresql" in recipe.addons,
        primary=table.primary or "sasl" in recipe.addons,
    )


def environment(recipe: Recipe) -> dict[str, str]:
    """Return the values that the file gives."""
    return {name: each.default for name, each in recipe.variables.items() if each.default is not None}


def required(recipe: Recipe) -> list[str]:
    """Return the names of the values that somebody must set."""
    return sorted(name for name, each in recipe.variables.items() if each.required and each.default is None)


def _check(recipe: Recipe) -> None:
    """Refuse what the types let through. Raises InputError and CommandError."""
    for each in recipe.processes.values():
        command = each if isinstance(each, str) else each.command
        if command or isinstance(each, str):
            checked_command(command)
        if not isinstance(each, str):
            _bytes(each.memory)
    for command in (recipe.hooks.build, recipe.hooks.release):
        if command:
            checked_command(command)
    _bytes(recipe.requires.memory)
    for name, variable in recipe.variables.items():
        checked_name(name)
        if "\0" in (variable.default or ""):
            raise _wrong(f"[env] {name}: a value holds no NUL")
    for addon in recipe.addons:
        if addon not in ADDONS:
            raise _wrong(f"[addons] {addon} is none of {', '.join(ADDONS)}")


def _bytes(size: str | int) -> int:
    """Return a size in bytes, as 512M. Raises InputError."""
    match = _SIZE.fullmatch(str(size))
    if match is None:
        raise _wrong(f"{size!r} is no size, as 512M or 2G")
    return int(match[1]) * _UNITS[match[2].lower()]


def _wrong(what: str) -> InputError:
    return InputError(f"rota.toml: {what}.", SEE)
