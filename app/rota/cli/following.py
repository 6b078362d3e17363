"""Follows a deploy to its end: its plan, and each step as it goes. Ctrl-C leaves the deploy alone."""

import contextlib
import http.client
import sys
import time
from datetime import datetime
from typing import Any

import click

from rota.artifacts.transfer import Line, TransferError
from rota.cli.client import call, target, tell
from rota.errors import RotaError

LOOK = 0.3  # seconds between two looks
WORTH = 0.1  # seconds that a step took to be told of once it is over
PATIENCE = 60.0  # seconds for which the hub may be away
SAYS = {
    "build": "building",
    "release": "making the release",
    "hook": "running the release hook",
    "place": "placing",
    "start": "starting",
    "health": "waiting until it is healthy",
    "singletons": "replacing singletons",
    "switch": "switching the proxy",
    "settle": "watching it, the old instances standing by",
    "stop": "stopping the old instances",
    "finish": "done",
}


def follow(begun: dict[str, Any], *, detach: bool, cancelled: bool = False) -> None:
    """Show a deploy that has begun until it has ended.

    Raises RotaError where it fails, or is cancelled and that was not what is asked for.
    """
    number = begun["deploy"]
    for warning in begun["warnings"]:
        tell(f"warning: {warning}", err=True)
    if detach:
        click.echo(f"Deploy {number} has begun.")
        return
    shown = _Shown()
    try:
        shown.until_it_ends(number, cancelled=cancelled)
    except KeyboardInterrupt:
        click.echo(f"\nDeploy {number} goes on without you. `rota deploy --cancel {shown.app}` would end it.")
        sys.exit(130)


class _Shown:
    """What a terminal has been shown of one deploy."""

    def __init__(self) -> None:
        self.app = ""
        self._steps: set[str] = set()
        self._plan = False
        self._printed = 0  # bytes of the build's output
        self._built = False  # whether all of it was shown
        self._heard = time.monotonic()

    def until_it_ends(self, number: int, *, cancelled: bool) -> None:
        while True:
            deploy = self._look(number)
            if deploy is not None:
                self.app = deploy["app"]
                self._show_build(deploy)
                self._show(deploy)
                if deploy["state"] != "running":
                    self._end(deploy, cancelled=cancelled)
                    return
            time.sleep(LOOK)

    def _look(self, number: int) -> dict[str, Any] | None:
        """Ask the hub, and bear with one that restarts meanwhile."""
        try:
            found: dict[str, Any] = call("GET", f"/api/deploys/{number}")
        except RotaError:
            if time.monotonic() - self._heard > PATIENCE:
                raise
            return None
        self._heard = time.monotonic()
        return found

    def _show_build(self, deploy: dict[str, Any]) -> None:
        """Show what the build says, to its end; also that of one which ended before anybody looked."""
        step = next(step for step in deploy["steps"] if step["kind"] == "build")
        if deploy["build"] is None or self._built or not step["started_at"]:
            return
        if "build" not in self._steps:
            self._steps.add("build")
            tell(f"{deploy['app']}: {SAYS['build']}")
        self._built = step["state"] not in ("waiting", "running")
        self._printed = show_output(deploy["build"], self._printed)

    def _show(self, deploy: dict[str, Any]) -> None:
        for step in deploy["steps"]:
            if step["kind"] == "build":
                continue
            if step["started_at"] and step["kind"] not in self._steps:
                self._steps.add(step["kind"])
                if step["kind"] == "start" and not self._plan:
                    self._say_plan(deploy)
                if step["state"] == "done" and _took(step) < WORTH:
                    continue  # it had nothing to do
                tell(f"{deploy['app']}: {SAYS.get(step['kind'], step['kind'])}")

    def _say_plan(self, deploy: dict[str, Any]) -> None:
        self._plan = True
        for sentence in deploy["plan"]:
            tell(f"  {sentence}")

    def _end(self, deploy: dict[str, Any], *, cancelled: bool) -> None:
        if deploy["state"] == "done":
            tell(f"{deploy['app']} v{deploy['release']} serves.")
            return
        if cancelled and deploy["state"] == "cancelled":
            tell(f"Deploy {deploy['id']} is cancelled.")
            return
        said = deploy["reason"] or "no reason was given"
        raise RotaError(f"deploy {deploy['id']} {deploy['state']}: {said}")


def _took(step: dict[str, Any]) -> float:
    began, ended = (datetime.fromisoformat(step[name]) for name in ("started_at", "ended_at"))
    return (ended - began).total_seconds()


def show_output(build: int, printed: int) -> int:
    """Print what a build says, without what was printed before; return how many bytes that makes."""
    hub = target()
    headers = {"Authorization": f"Bearer {hub.token}"} if hub.token else {}
    seen = 0
    with (
        contextlib.suppress(OSError, http.client.HTTPException, TransferError),
        Line(hub.url, lambda *_: headers) as line,
    ):
        answer = line.ask("GET", f"/api/builds/{build}/output")
        for data in answer:
            seen += len(data)
            if seen > printed:
                tell(f"  {data.decode(errors='replace').rstrip()}")
    return max(seen, printed)
