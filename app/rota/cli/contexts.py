"""The hubs that this user's commands know, each by a name: where it is, and the token of `rota login`."""

import fcntl
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import click

from rota.errors import InputError, NotFoundError, RotaError

OPTION = "rota.context"  # where `rota --context` lies while a command runs
VARIABLE = "ROTA_CONTEXT"
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Context:
    """One hub. `token_id` is the number of a token that `rota login` made itself."""

    url: str
    token: str
    token_id: int | None


@dataclass(frozen=True)
class Contexts:
    """All of them. `current` is the one in use, empty where none is."""

    current: str = ""
    known: Mapping[str, Context] = field(default_factory=dict)

    def named(self, name: str) -> Context:
        """Return one. Raises NotFoundError."""
        if name not in self.known:
            raise NotFoundError(
                f"There is no context {name!r}.",
                "`rota context list` shows all; `rota --context NAME login URL` makes one.",
            )
        return self.known[name]

    def using(self, name: str) -> "Contexts":
        """Return them with another one in use. Raises NotFoundError."""
        self.named(name)
        return replace(self, current=name)

    def adding(self, name: str, context: Context) -> "Contexts":
        """Return them with one more, or with it anew, and that one in use."""
        return Contexts(name, {**self.known, name: context})

    def without(self, name: str) -> "Contexts":
        """Return them without one; where it was in use, none is."""
        left = {each: context for each, context in self.known.items() if each != name}
        return Contexts("" if name == self.current else self.current, left)

    def name_of(self, url: str) -> str:
        """Return the name by which this address is known, else the one that it would be given."""
        return next((name for name, each in self.known.items() if each.url == url), named_after(url))


def file() -> Path:
    """Return where they are kept."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "rota" / "contexts.json"


def chosen() -> str:
    """Return the name that `rota --context` gives, else ROTA_CONTEXT; empty where neither does."""
    return optioned() or os.environ.get(VARIABLE, "")


def optioned() -> str:
    """Return the name that `rota --context` gives, empty without it."""
    running = click.get_current_context(silent=True)
    return str(running.meta.get(OPTION) or "") if running else ""


def checked(name: str) -> str:
    """Return a context's name. Raises InputError for what cannot be one."""
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is no name for a context.", "Use a to z, 0 to 9, dots and dashes, as in prod."
        )
    return name


def named_after(url: str) -> str:
    """Return a context's name made of an address: its host, and its port where that is not the usual one."""
    parts = urlsplit(url)
    host = re.sub(r"[^a-z0-9.-]+", "-", (parts.hostname or "").lower()).strip(".-")
    port = "" if parts.port in (None, _PORTS.get(parts.scheme)) else f"-{parts.port}"
    return f"{host[:56] or 'hub'}{port}"


def read() -> Contexts:
    """Return what is kept. Raises RotaError where the file cannot be read."""
    path = file()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        known = {str(name): Context(**each) for name, each in found["contexts"].items()}
        return Contexts(str(found["current"]), known)
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RotaError(f"{path} cannot be read: {error}: remove it, and run `rota login` again") from error


def change(make: Callable[[Contexts], Contexts]) -> Contexts:
    """Change what is kept, one command after the other; return what is kept now. Raises RotaError.

    Only this user can read the file, and it is written whole or not at all.
    """
    path = file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            made = make(read())
            _write(path, made)
        finally:
            os.close(held)
    except OSError as error:
        raise RotaError(f"{path} cannot be written: {error.strerror}") from error
    return made


def _write(path: Path, contexts: Contexts) -> None:
    if not contexts.known:
        path.unlink(missing_ok=True)
        return
    document = {
        "current": contexts.current,
        "contexts": {name: asdict(each) for name, each in sorted(contexts.known.items())},
    }
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            json.dump(document, out, indent=2)
            out.flush()
            os.fsync(out.fileno())
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)
