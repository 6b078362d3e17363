"""`rota deploy`: packs a directory, pushes what the hub misses of it, and follows what comes of it."""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

LOOK = 1.0  # seconds between two looks at a deploy that is waited for


@click.command("deploy")
@click.argument("app")
@click.argument(
    "directory", default=".", type=click.Path(path_type=Path, file_okay=False, exists=True), metavar="[DIR]"
)
@click.option("--wait", is_flag=True, help="Wait for an unfinished deploy of the app instead of failing.")
@click.option("--detach", is_flag=True, help="Return as soon as the deploy has begun.")
@click.option("--cancel", is_flag=True, help="End the unfinished deploy; the release before serves on.")
def command(*, app: str, directory: Path, wait: bool, detach: bool, cancel: bool) -> None:
    """Build what is in DIR (here, if not given) on the primary, and move APP to it.

    Ctrl-C leaves the deploy alone. The exit code is 0 once the new release serves, 1 where it does not.
    """
    from rota.cli.client import call
    from rota.cli.following import follow
    from rota.errors import RotaError
    from rota.releases.names import checked_app

    path = f"/api/apps/{quote(checked_app(app), safe='')}"
    if cancel:
        number = _unfinished(app)
        if number is None:
            raise RotaError(f"{app} is not being deployed: there is nothing to cancel")
        call("POST", f"/api/deploys/{number}/cancel")
        follow({"deploy": number, "warnings": []}, detach=detach, cancelled=True)
        return
    _await_other(app, wait=wait)
    source = _push(app, directory)
    follow(call("POST", f"{path}/deploys", {"source": source}), detach=detach)


def _push(app: str, directory: Path) -> str:
    """Have the directory at the hub; return its hash."""
    from rota.archive.pack import pack_source
    from rota.artifacts.measuring import measure
    from rota.artifacts.pushing import push
    from rota.artifacts.transfer import Line
    from rota.cli.client import target, tell

    hub = target()
    headers = {"Authorization": f"Bearer {hub.token}"} if hub.token else {}
    with tempfile.TemporaryDirectory(prefix="rota-") as place:
        archive = Path(place) / "source.tar"
        with archive.open("wb") as file:
            files = pack_source(directory, file)
        measured = measure(archive)
        tell(f"{app}: packed {files} files, {size(measured.size)}")
        with Line(hub.url, lambda *_: headers) as line:
            sent = push(line, app, archive, measured, _Progress(app))
        tell(f"{app}: sent {size(sent)}")
        return measured.hash


class _Progress:
    """How far a push is, on a terminal alone."""

    def __init__(self, app: str) -> None:
        self._app = app
        self._told = 0.0

    def __call__(self, done: int, whole: int) -> None:
        now = time.monotonic()
        if sys.stderr.isatty() and (now - self._told > 0.1 or done == whole):  # noqa: PLR2004
            self._told = now
            end = "\n" if done == whole else ""
            click.echo(f"\r{self._app}: {size(done)} of {size(whole)} sent", err=True, nl=False)
            click.echo(end, err=True, nl=False)


def size(count: int) -> str:
    """Return a number of bytes for people."""
    amount = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:  # noqa: PLR2004
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def _unfinished(app: str) -> int | None:
    from rota.cli.client import call

    apps: list[dict[str, Any]] = call("GET", "/api/apps")["apps"]
    return next((each["deploy"] for each in apps if each["name"] == app), None)


def _await_other(app: str, *, wait: bool) -> None:
    """Wait until no other deploy of the app is under way; without `wait` the hub says who holds it."""
    from rota.cli.client import tell

    told = False
    while wait and (number := _unfinished(app)) is not None:
        if not told:
            tell(f"{app}: waiting for deploy {number} to end")
            told = True
        time.sleep(LOOK)
