"""`make run`: starts the single-node edition, waits until it is well, and says what to try next."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from rota.errors import RotaError
from rota.settings import load

ROOT = Path(__file__).resolve().parent.parent
WITHIN = 60  # seconds

NEXT = """
  Rota runs: {url}/

  Try next, in another terminal:
    curl {url}/health              what this process does and leads
    .venv/bin/rota backup now      a backup of it, under {data}/backups
    .venv/bin/rota settings        every setting, and where it came from
    .venv/bin/rota --help          the rest

  Everything it keeps is in {data}. Ctrl-C stops it.
"""


def main() -> int:
    """Run until Ctrl-C; return the program's exit code."""
    os.chdir(ROOT)
    try:
        settings = load(options={"server.data": "data"}).settings
    except RotaError as error:
        print(f"rota: {error}", file=sys.stderr)
        return error.exit_code
    process = subprocess.Popen([sys.executable, "-m", "rota", "serve", "--data", "data"])
    # A terminal sends Ctrl-C to the program too, which stops in order: here we only wait for it.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: process.send_signal(signal.SIGTERM))
    url = f"http://{settings.address}"
    if _healthy(url, process):
        print(NEXT.format(url=url, data=settings.server.data), flush=True)
    return process.wait()


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
