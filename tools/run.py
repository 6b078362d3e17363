"""`make run`: starts the single-node edition, waits until it is well, and says what to try next."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import click

from rota.access.passwords import hashed
from rota.access.scopes import Scope
from rota.acts.act import Act
from rota.cli.database import with_database
from rota.errors import RotaError
from rota.settings import Settings, load
from rota.store.accounts import Accounts
from rota.store.database import Database

ROOT = Path(__file__).resolve().parent.parent
WITHIN = 60  # seconds
# Where to reach a process that listens on every address.
_HERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104

ADMINISTRATOR = "admin"

NEXT = """
  Rota runs: {url}/
{sign_in}
  Try next, in another terminal:
{commands}

  Everything it keeps is in {data}. Ctrl-C stops it.
"""
FIRST = """  Sign in as {name} with the password {password}
  (shown this once; .venv/bin/rota admin password {name} sets another)
"""


def main() -> int:
    """Run until Ctrl-C; return the program's exit code."""
    os.chdir(ROOT)
    try:
        settings = load(options={"server.data": "data"}).settings
    except RotaError as error:
        print(f"rota: {error}", file=sys.stderr)
        return error.exit_code
    host, _, port = settings.address.rpartition(":")
    host = _HERE.get(host, host)
    # Otherwise that one's health would be taken for ours. The program says what to do about it.
    taken = _listens(host.strip("[]"), int(port))
    # This machine is also the server that runs the apps, unless somebody says otherwise.
    environ = {"ROTA_SERVERS_LOCAL": "true", **os.environ}
    process = subprocess.Popen([sys.executable, "-m", "rota", "serve", "--data", "data"], env=environ)
    # A terminal sends Ctrl-C to the program too, which stops in order: here we only wait for it.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: process.send_signal(signal.SIGTERM))
    url = f"http://{host}:{port}"
    if not taken and _healthy(url, process):
        sign_in = _first_administrator(settings)
        data = settings.server.data
        print(NEXT.format(url=url, sign_in=sign_in, commands=_commands(url), data=data), flush=True)
    return process.wait()


def _first_administrator(settings: Settings) -> str:
    """Make an administrator where there is no account yet; return what to say of it."""
    password = secrets.token_urlsafe(15)
    subject, details = f"account:{ADMINISTRATOR}", {"scopes": [Scope.ADMIN.value]}
    act = Act(kind="account.create", actor="operator on the host", subject=subject, details=details)

    async def make(database: Database) -> bool:
        accounts = Accounts(database)
        if await accounts.all():
            return False
        await accounts.create(ADMINISTRATOR, hashed(password), [Scope.ADMIN], bytes(act))
        return True

    try:
        made = with_database(settings, make, begin=True)
    except RotaError as error:
        return f"  No administrator could be made: {error}\n"
    except click.Abort:  # told to stop meanwhile
        signal.raise_signal(signal.SIGTERM)
        return ""
    return FIRST.format(name=ADMINISTRATOR, password=password) if made else ""


def _commands(url: str) -> str:
    rows = {
        f"curl {url}/health": "what this process does and leads",
        f".venv/bin/rota login {url}": "let the next ones talk to it, as the administrator above",
        ".venv/bin/rota deploy hello examples/hello": "an app: built, started, watched",
        ".venv/bin/rota ps hello": "what runs, and at which port it answers",
        ".venv/bin/rota backup now": "a backup, made while it runs",
        ".venv/bin/rota settings": "every setting, and where it came from",
        ".venv/bin/rota --help": "the rest",
    }
    width = max(map(len, rows))
    return "\n".join(f"    {command:<{width}}   {what}" for command, what in rows.items())


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True


def _healthy(url: str, process: "subprocess.Popen[bytes]") -> bool:
    end = time.monotonic() + WITHIN
    while process.poll() is None and time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:  # noqa: S310 - our own http://
                if json.load(answer)["status"] == "ok":
                    return True
        except urllib.error.HTTPError as error:
            error.close()
        except (OSError, ValueError):
            pass
        time.sleep(0.1)
    if process.poll() is None:
        print(f"It is not well after {WITHIN} s: {url}/health says why.", file=sys.stderr)
    return False


if __name__ == "__main__":
    sys.exit(main())
