"""A host made a server by hand, as the kit's role does it, so that a test takes seconds."""

import asyncio
import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import jinja2
from tests.lab.labctl import Labctl

from lab.names import switch_netns

ROOT = Path(__file__).parents[2]
PRIMARY, NETWORK = "10.78.0.1", "10.78.0.0/24"
CLONE_NEWNET = 0x40000000
T = TypeVar("T")

SETUP = """
import os, shutil, subprocess, sys
from pathlib import Path
here = Path("/srv/rota")
users = "u rota - - /var/lib/rota /usr/sbin/nologin\\nu rota-unpack - - /nonexistent /usr/sbin/nologin\\n"
subprocess.run(["systemd-sysusers", "-"], input=users.encode(), check=True)
subprocess.run([sys.executable, "-m", "venv", "--without-pip", "/opt/rota/current"], check=True)
(site,) = Path("/opt/rota/current/lib").glob("python*/site-packages")
(site / "rota.pth").write_text("/srv/rota/app\\n/srv/rota/site\\n")
Path("/opt/rota/libexec").mkdir(parents=True)
shutil.copy(here / "app/rota/agent/launch.py", "/opt/rota/libexec/rota-launch.py")
Path("/etc/rota").mkdir()
for name in ("server.json", "agent.json"):
    shutil.copy(here / name, f"/etc/rota/{name}")
for unit in (here / "units").iterdir():
    shutil.copy(unit, "/etc/systemd/system")
subprocess.run(["systemctl", "daemon-reload"], check=True)
units = ["rota-rootd.socket", "rota-apps-firewall.service"]
subprocess.run(["systemctl", "enable", "--now", *units], check=True)
"""


def units() -> dict[str, str]:
    """Return the units of a server, rendered as Ansible does."""
    loader = jinja2.FileSystemLoader(ROOT / "units")
    environment = jinja2.Environment(  # noqa: S701 - units are not HTML
        loader=loader, trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    values: dict[str, Any] = {"after": [], "watch": {}}
    firewall = {"capabilities": "CAP_NET_ADMIN", "families": "AF_NETLINK"}
    patterns = ("rota-agent.*", "rota-rootd.*", "rota-app@.*", "rota-run@.*", "rota-apps*", "rota.slice")
    names = [path.name for pattern in patterns for path in (ROOT / "units").glob(pattern)]
    return {
        name.removesuffix(".j2"): environment.get_template(name).render(
            values | (firewall if "firewall" in name else {})
        )
        for name in names
    }


def wheels(suite_python: str, into: Path) -> None:
    """Install what the program depends on, for a host's Python."""
    tags = [f"--platform={glibc}_x86_64" for glibc in ("manylinux2014", "manylinux_2_17", "manylinux_2_28")]
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", *tags]
    argv += ["--implementation=cp", f"--python-version={suite_python}", f"--target={into}"]
    subprocess.run([*argv, "--requirement", str(ROOT / "requirements.txt")], check=True)


class Server:
    """One host of a lab."""

    def __init__(self, lab: Labctl, name: str, address: str) -> None:
        self.lab = lab
        self.name = name
        self.address = address

    def make(self, shared: Path, *options: str, program: bool = False) -> "Server":
        """Make the host; with `program`, so that the agent itself can run there."""
        shared.chmod(0o755)
        shutil.copytree(ROOT / "app", shared / "app", ignore=shutil.ignore_patterns("__pycache__"))
        (shared / "units").mkdir()
        for name, text in units().items():
            (shared / "units" / name).write_text(text)
        server = {"address": self.address, "primary": PRIMARY, "network": NETWORK}
        (shared / "server.json").write_text(json.dumps(server))
        (shared / "agent.json").write_text(json.dumps({"name": self.name, "address": self.address}))
        (shared / "setup.py").write_text(SETUP)
        if program:
            wheels("3.13", shared / "site")
        self.lab("add", self.name, self.address, f"--bind={shared}:/srv/rota", *options)
        self.inside("python3", "/srv/rota/setup.py")
        return self

    @property
    def pid(self) -> str:
        """The id of the host's first process, as this machine counts."""
        return self.lab("pid", self.name)

    @property
    def socket(self) -> Path:
        """The socket of rootd, as this machine reaches it."""
        return Path(f"/proc/{self.pid}/root/run/rota-rootd.socket")

    @property
    def within(self) -> tuple[str, ...]:
        """What runs a command in the host."""
        return ("nsenter", f"--target={self.pid}", "--all", "--")

    def inside(self, *command: str) -> str:
        """Run a command there that must succeed; return its output."""
        return self.lab.inside(self.name, *command)

    def python(self, code: str, *arguments: str, user: str = "root") -> str:
        """Run Python there as a user; return what it printed."""
        argv = ["setpriv", f"--reuid={user}", "--clear-groups", "python3", "-c", code, *arguments]
        return self.inside(*argv)

    def file(self, path: str) -> Path:
        """Return a path of the host as this machine reaches it."""
        return Path(f"/proc/{self.pid}/root") / path.lstrip("/")


def on_network(lab: Labctl, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the lab's network, at the address of its switch."""

    def live() -> T:
        with Path("/run/netns", switch_netns(lab.lab)).open() as namespace:
            libc = ctypes.CDLL(None, use_errno=True)
            assert libc.setns(namespace.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        return asyncio.run(work)

    with ThreadPoolExecutor(1) as thread:  # whose network is then another's, so it ends with this
        return thread.submit(live).result()
