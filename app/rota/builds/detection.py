"""Decides how a source is built, by what it says and by what lies in it."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rota.agent.launch import CommandError, words
from rota.builds import procfile, recipe
from rota.builds.manifest import Manifest
from rota.builds.procfile import RELEASE, checked_command
from rota.builds.recipe import Recipe
from rota.errors import InputError

APP = "/app"  # where a server shows the artifact to the app
SYSTEM = "/usr/local/bin:/usr/bin:/bin"
OURS = ".rota"  # what the build adds to the artifact
PYTHON_FILES = ("requirements.txt", "pyproject.toml")
STATIC_FILES = ("index.html", "public/index.html")
SAYS = "Write [build] kind or command in rota.toml; docs/reference/apps.md describes it."


@dataclass(frozen=True, kw_only=True)
class Step:
    """One program of a build: its words, and what is added to its environment."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """What is done to a source: why, the steps, and what then runs."""

    kind: str
    because: str
    steps: tuple[Step, ...]
    manifest: Manifest
    serves: str = ""  # the directory of static files that our own program serves


def plan(tree: Path) -> BuildPlan:
    """Decide. Raises InputError that says what is wrong or missing, and where."""
    said = recipe.parse(_read(tree, "rota.toml"))
    given = _read(tree, "Procfile")
    commands = procfile.parse(given) if (tree / "Procfile").is_file() else {}
    hook = said.hooks.release or commands.pop(RELEASE, "")
    kind, because = _kind(tree, said)
    make = {"python": _python, "nodejs": _nodejs, "static": _static, "command": _command}[kind]
    steps, environment, own = make(tree, said)
    if not commands and not said.processes:
        commands = own
    processes = recipe.processes(said, commands)
    if not processes:
        raise InputError(
            "Nothing says what to run.", "Add a Procfile with a line such as web: python app.py."
        )
    if said.hooks.build:
        steps = (*steps, Step(argv=tuple(words(said.hooks.build, {})), environment=_building(environment)))
    manifest = Manifest(
        processes=processes,
        requires=recipe.requires(said),
        hook=hook,
        environment={**environment, **recipe.environment(said)},
        required=recipe.required(said),
    )
    serves = _directory(tree, said) if kind == "static" else ""
    return BuildPlan(kind=kind, because=because, steps=steps, manifest=manifest, serves=serves)


_Made = tuple[tuple[Step, ...], dict[str, str], dict[str, str]]  # steps, environment, commands


def _kind(tree: Path, said: Recipe) -> tuple[str, str]:
    if said.build.kind is not None:
        return said.build.kind, "rota.toml says so"
    if said.build.command:
        return "command", "rota.toml has a build command"
    python = [name for name in PYTHON_FILES if (tree / name).is_file()]
    package = ["package.json"] if (tree / "package.json").is_file() else []
    static = [name for name in STATIC_FILES if (tree / name).is_file()]
    if python and package:
        raise InputError(f"There is {python[0]}, for Python, and package.json, for Node.js.", SAYS)
    for kind, files in (("python", python), ("nodejs", package), ("static", static)):
        if files:
            return kind, f"there is {files[0]}"
    looked = ", ".join((*PYTHON_FILES, "package.json", *STATIC_FILES))
    raise InputError(f"What kind of app this is cannot be seen: there is none of {looked}.", SAYS)


def _python(tree: Path, _: Recipe) -> _Made:
    python, library = base_python(), f"{OURS}/python"
    what = ("-r", "requirements.txt") if (tree / "requirements.txt").is_file() else (".",)
    install = (
        *(sys.executable, "-m", "pip", "--python", python, "install"),
        *("--no-input", "--disable-pip-version-check", "--no-compile", "--no-warn-script-location"),
        *("--target", library, *what),
    )
    compiling = (python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
    environment = {
        "PATH": f"{APP}/{library}/bin:{SYSTEM}",
        "PYTHONPATH": f"{APP}/{library}:{APP}",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    steps = (
        Step(argv=install),
        Step(argv=(*compiling, "-s", ".", "-p", APP, "."), environment=_building(environment)),
    )
    return steps, environment, {}


def _nodejs(tree: Path, _: Recipe) -> _Made:
    try:
        package = json.loads((tree / "package.json").read_text(encoding="utf-8"))
        scripts = dict(package.get("scripts") or {})
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"package.json cannot be read: {error}.", "Correct it.") from error
    environment = {"PATH": f"{APP}/node_modules/.bin:{SYSTEM}", "NODE_ENV": "production"}
    building = {**_building(environment), "NODE_ENV": "development"}
    locked = any((tree / name).is_file() for name in ("package-lock.json", "npm-shrinkwrap.json"))
    steps: list[tuple[str, ...]] = [
        ("npm", "ci" if locked else "install", "--no-audit", "--no-fund", "--no-update-notifier")
    ]
    if "build" in scripts:
        steps += [("npm", "run", "build"), ("npm", "prune", "--omit=dev", "--no-audit", "--no-fund")]
    own = {}
    if start := str(scripts.get("start", "")):
        try:
            own = {"web": checked_command(start)}
        except CommandError as error:
            raise InputError(f"package.json: the script start: {error}.", "Write a Procfile.") from error
    return tuple(Step(argv=argv, environment=building) for argv in steps), environment, own


def _static(tree: Path, said: Recipe) -> _Made:
    environment = {"PATH": SYSTEM, "PYTHONUNBUFFERED": "1"}
    steps = _command(tree, said)[0] if said.build.command else ()
    return steps, environment, {"web": f"python3 {OURS}/static_files.py {_directory(tree, said)}"}


def _command(_: Path, said: Recipe) -> _Made:
    given = said.build.command
    try:
        argv = tuple(given) if isinstance(given, list) else tuple(words(given, {}))
    except CommandError as error:
        raise InputError(f"rota.toml: [build] command: {error}.", recipe.SEE) from error
    if not argv:
        raise InputError("rota.toml: [build] has no command.", recipe.SEE)
    environment = {"PATH": SYSTEM}
    return (Step(argv=argv, environment=environment),), environment, {}


def base_python() -> str:
    """Return the host's own Python, which servers have too: not the one of this program's environment."""
    base = getattr(sys, "_base_executable", sys.executable)
    return os.path.realpath(base)


def _directory(tree: Path, said: Recipe) -> str:
    """Return the directory of static files. Raises InputError for one that is not inside."""
    given = said.build.directory or ("public" if (tree / "public" / "index.html").is_file() else ".")
    path = PurePosixPath(given)
    if path.is_absolute() or ".." in path.parts or not given.isprintable() or " " in given:
        raise InputError(f"rota.toml: [build] directory {given!r} is no path inside the app.", recipe.SEE)
    return str(path)


def _building(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment as it is during the build, where the app is not yet at its place."""
    return {name: value.replace(APP, ".") for name, value in environment.items()}


def _read(tree: Path, name: str) -> bytes:
    path = tree / name
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise InputError(f"{name} is no plain file.", "Put the file itself there.")
    return path.read_bytes() if path.exists() else b""
