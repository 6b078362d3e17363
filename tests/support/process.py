"""Real processes of the program, started and watched from outside."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota.roles import Role
from rota.tasks.table import TABLE

LED = sorted(entry.name for entry in TABLE if entry.body is not None)  # that a process with everything leads
SINGLETONS = len(LED)
ROTA = [sys.executable, "-m", "rota"]
START = 20.0


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return this environment without anything that would set the program up."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ROTA_", "NOTIFY_", "LISTEN_"))}
    return {**kept, **extra}


def tasks_of(role: Role, *, resident: bool = False, primary: bool = True) -> list[str]:
    """Return the singletons of a role by name, or what every process of it runs, as the table has them."""
    return sorted(
        entry.name
        for entry in TABLE
        if entry.role is role
        and (primary or not entry.primary)
        and (entry.resident if resident else entry.body) is not None
    )


@dataclass
class Hub:
    """One `rota serve`. `log` is the file that its standard error goes to."""

    process: "subprocess.Popen[bytes]"
    log: Path
    port: int | None
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls, log: Path, environ: Mapping[str, str], *options: str, port: int | None = None) -> "Hub":
        """Start a process; with a port it listens there on loopback."""
        extra = {"ROTA_SERVER_ADDRESS": f"127.0.0.1:{port}"} if port else {}
        with log.open("ab") as out:
            process = subprocess.Popen(
                [*ROTA, "serve", *options],
                env=environment({**environ, **extra}),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        return cls(process, log, port)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        """Return the status and the body of a GET."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=dict(headers or {}))
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - our own http://
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def health(self) -> dict[str, Any]:
        """Return what /health says, or {} while nobody answers."""
        try:
            return dict(json.loads(self.get("/health")[1]))
        except (OSError, ValueError):
            return {}

    def leading(self) -> list[str]:
        """Return the locks that it says it holds."""
        return list(self.health().get("leading", []))

    def wait(self, wanted: str = "ok", within: float = START) -> "Hub":
        """Wait until /health has this status; fail with the log when the process ends instead."""
        end = time.monotonic() + within
        while self.health().get("status") != wanted:
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"no {wanted!r} within {within} s:\n{self.output()}")
            time.sleep(0.02)
        return self

    def output(self) -> str:
        """Return what it has written so far."""
        return self.log.read_text(errors="replace")

    def pids(self) -> list[int]:
        """Return every process of this hub, the parent first."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every process of this hub."""
        for pid in self.pids():
            os.kill(pid, number)

    def stop(self, within: float = 15.0) -> int:
        """Stop it as systemd does; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=within)

    def kill(self) -> None:
        """End every process of it, whatever state it is in."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=10)


def run(
    argv: Sequence[str], environ: Mapping[str, str] | None = None, within: float = 60
) -> "subprocess.CompletedProcess[str]":
    """Run `rota …` to its end."""
    return subprocess.run(
        [*ROTA, *argv],
        env=environment(environ or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=within,
    )
