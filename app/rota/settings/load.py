"""Settings gathered from their sources; later sources win."""

import difflib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from rota.errors import KeyFileError, SettingsError
from rota.failpoints import VARIABLE
from rota.secret import Secret
from rota.settings import rules
from rota.settings.describe import credential_name
from rota.settings.model import SECTIONS, Settings, key_types
from rota.settings.values import from_text, from_toml

SYSTEM_FILE = Path("/etc/rota/hub.toml")
# Variables that share the prefix and are not settings.
_NOT_SETTINGS = ("ROTA_LAB_",)
# What commands that talk to a hub are told by, and what tests end a process by.
_OTHERS = frozenset({"ROTA_URL", "ROTA_TOKEN", "ROTA_CA", "ROTA_CONTEXT", VARIABLE})

Parse = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Given:
    """One value that a source gave, not yet read."""

    section: str
    key: str
    raw: Any
    source: str
    parse: Parse


@dataclass(frozen=True)
class Loaded:
    """The settings in force, and for each `section.key` the source it came from."""

    settings: Settings
    sources: Mapping[str, str]


def load(
    *,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> Loaded:
    """Read every source and check the whole.

    `file` is the settings file (None: the system's, where there is one),
    `options` maps `section.key` to the text of a command-line option.
    Raises SettingsError with a line for each problem, and KeyFileError.
    """
    env = os.environ if environ is None else environ
    known = key_types()
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    found: list[str] = []
    for given in _every(file, env, options or {}):
        problem = _unknown(given, known)
        if problem is None:
            name = f"{given.section}.{given.key}"
            try:
                values[name] = given.parse(given.raw, known[given.section][given.key])
                sources[name] = given.source
            except ValueError as error:
                problem = f"{name} ({given.source}): {error}"
        if problem is not None:
            found.append(problem)
    if found:
        raise SettingsError(found)
    return _checked(values, sources)


def _checked(values: dict[str, Any], sources: dict[str, str]) -> Loaded:
    if str(values["database.url"]).startswith("sqlite:"):
        if not values["server.primary"] and sources["server.primary"] != "default":
            problem = (
                f"server.primary ({sources['server.primary']}): false, and database.url says SQLite, where "
                "the one host is the primary: take the setting away, or use PostgreSQL"
            )
            raise SettingsError([problem])
        values["server.primary"] = True
    settings = Settings(**{section: cls(**_of(section, values)) for section, cls in SECTIONS.items()})
    broken = [f"{key} ({sources[key]}): {problem}" for key, problem in rules.problems(settings)]
    if broken:
        raise SettingsError(broken)
    return Loaded(settings, sources)


def _of(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name.split(".")[1]: value for name, value in values.items() if name.split(".")[0] == section}


def _every(file: Path | None, env: Mapping[str, str], options: Mapping[str, str]) -> Iterator[Given]:
    packaged = resources.files("rota").joinpath("hub.toml").read_text(encoding="utf-8")
    yield from _toml(packaged, "default")
    path = file or (SYSTEM_FILE if SYSTEM_FILE.exists() else None)
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SettingsError([f"{path}: cannot be read: {reason}"]) from error
        yield from _toml(text, str(path))
    yield from _credentials(env)
    yield from _environment(env)
    for name, text in options.items():
        section, key = name.split(".")
        yield Given(section, key, text, f"--{'role' if key == 'roles' else key}", from_text)


def _toml(text: str, source: str) -> Iterator[Given]:
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError([f"{source}: not TOML: {error}"]) from error
    for section, body in document.items():
        if not isinstance(body, dict):
            raise SettingsError(
                [f"{section} ({source}): stands outside a section: put it below [server] or another"]
            )
        for key, raw in body.items():
            yield Given(section, key, raw, source, from_toml)
        if not body and section not in SECTIONS:
            yield Given(section, "", None, source, from_toml)


def _credentials(env: Mapping[str, str]) -> Iterator[Given]:
    directory = env.get("CREDENTIALS_DIRECTORY")
    if not directory:
        return
    secrets = {
        credential_name(section, key): (section, key)
        for section, keys in key_types().items()
        for key, kind in keys.items()
        if kind is Secret
    }
    try:
        paths = sorted(Path(directory).iterdir())
    except OSError as error:
        raise KeyFileError(f"CREDENTIALS_DIRECTORY: {directory} cannot be read: {error}") from error
    strange = [path.name for path in paths if path.name not in secrets]
    if strange:
        raise SettingsError(
            [f"credential {name}: names no secret; {_instead(name, secrets)}" for name in strange]
        )
    for path in paths:
        section, key = secrets[path.name]
        yield Given(section, key, read_key_file(path), f"credential {path.name}", from_text)


def read_key_file(path: Path) -> str:
    """Return a key file's text without its last line end.

    Raises KeyFileError where it is missing, empty, or open to other users.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError(f"key file {path}: cannot be read: {error}") from error
    if not text:
        raise KeyFileError(f"key file {path}: is empty: write the secret into it, or remove the file")
    if mode & 0o037:
        raise KeyFileError(f"key file {path}: mode {mode & 0o777:04o} lets other users in: chmod 0600 {path}")
    return text


def _environment(env: Mapping[str, str]) -> Iterator[Given]:
    for variable in sorted(env):
        if not variable.startswith("ROTA_") or variable.startswith(_NOT_SETTINGS) or variable in _OTHERS:
            continue
        section, _, key = variable.removeprefix("ROTA_").lower().partition("_")
        yield Given(section, key, env[variable], variable, from_text)


def _unknown(given: Given, known: Mapping[str, Mapping[str, Any]]) -> str | None:
    if given.section not in known:
        return f"[{given.section}] ({given.source}): unknown section; {_instead(given.section, known)}"
    if given.key not in known[given.section]:
        instead = _instead(given.key, known[given.section])
        return f"{given.section}.{given.key} ({given.source}): unknown key; {instead}"
    return None


def _instead(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f'did you mean "{close[0]}"?' if close else f"the known ones are {', '.join(known)}"
