"""The cluster under test, from outside: its hosts, its database, its /health, and who holds which lock."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.inventory import ROOT, Host, Inventory
from tests.lab.labctl import Labctl

from rota.coordination.keys import leader_key
from rota.tasks.table import TABLE

INSIDE = Path(__file__).parent / "inside"
RESIDENTS = {entry.name for entry in TABLE if entry.resident}  # every worker runs them, and none leads them
LONGEST = 60.0  # seconds for any one command
_OWNER = re.compile(r'\("([^"]+)",pid=(\d+),fd=\d+\)')

# A key of eight bytes stands in pg_locks as two numbers of four.
_HOLDER = """
SELECT a.pid, host(a.client_addr), a.client_port FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
AND (l.classid::bigint << 32 | l.objid::bigint) = {key}
"""
_TERMINATE = """
SELECT (extract(epoch FROM now()) * 1000000000)::bigint, pg_terminate_backend({backend})
"""
_BEGAN = """
SELECT (extract(epoch FROM backend_start) * 1000000000)::bigint FROM pg_stat_activity
WHERE backend_type = 'walwriter'
"""
# pg_locks is read anew by each statement, inside a transaction too.
_UNTIL_FREE = """
DO $$ BEGIN
  FOR i IN 1..1500 LOOP
    IF NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = {backend}) THEN
      RAISE NOTICE 'free at %', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint; RETURN;
    END IF;
    PERFORM pg_sleep(0.02);
  END LOOP;
END $$
"""


@dataclass(frozen=True)
class Holder:
    """The process behind a lock connection: `pid` is its number on its host, `backend` the server's end."""

    task: str
    host: Host
    pid: int
    backend: int

    @property
    def name(self) -> str:
        """How the process names itself in its acts."""
        return f"{self.host.name}:{self.pid}"


class Watch:
    """Waits, in the server itself, until a backend holds no advisory lock any more."""

    def __init__(self, argv: list[str]) -> None:
        self._process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def freed(self) -> int:
        """Return when that was, in nanoseconds since 1970 by the server's clock."""
        said, _ = self._process.communicate(timeout=LONGEST)
        found = re.search(r"free at (\d+)", said)
        assert found, said
        return int(found[1]) * 1000


class Cluster:
    """One cluster in one lab."""

    def __init__(self, labctl: Labctl, inventory: Inventory) -> None:
        self.labctl = labctl
        self.inventory = inventory
        self._schema = self.psql("SELECT schemaname FROM pg_tables WHERE tablename = 'leaders'")

    def on(self, host: Host, *command: str) -> str:
        """Run a command on a host that must succeed; return what it says."""
        done = subprocess.run(
            self.labctl.argv("exec", host.name, "--", *command),
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=LONGEST,
        )
        assert done.returncode == 0, f"{host.name}: {' '.join(command)[:200]}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def program(self, host: Host, name: str, *arguments: str) -> str:
        """Run one of our programs on a host."""
        text = (INSIDE / f"{name}.py").read_text()
        return self.on(host, "/usr/bin/python3", "-I", "-c", text, *arguments)

    def beside(self, module: str, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
        """Start one of our modules on the lab's network; both its input and its output are the caller's."""
        return subprocess.Popen(
            self.labctl.argv("net", "--", sys.executable, "-m", module, *arguments),
            cwd=ROOT,
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def meanwhile(self, module: str, *arguments: str, **variables: str) -> Iterator[list[str]]:
        """Have one of our modules run for the length of the block; then the list holds what it printed."""
        said: list[str] = []
        process = self.beside(module, *arguments, **variables)
        try:
            yield said
            said.append(process.communicate(timeout=LONGEST)[0])
        except BaseException:
            process.kill()
            process.communicate(timeout=10)
            raise

    def psql(self, statement: str) -> str:
        """Run a statement as the database's own superuser, on the primary."""
        return self.on(self.inventory.primary, *_psql(statement))

    def holder(self, task: str) -> Holder:
        """Return the process that the database and the host's kernel show behind a leader lock."""
        row = self.psql(_HOLDER.format(key=leader_key(self._schema, task)))
        backend, address, port = row.split("|")
        host = self.inventory.at(address)
        sockets = self.on(
            host, "ss", "--no-header", "--tcp", "--numeric", "--processes", f"src = {address}:{port}"
        )
        return Holder(task, host, owner(sockets), int(backend))

    def watch(self, holder: Holder) -> Watch:
        """Begin to wait until the server has freed what a process held."""
        command = _psql(_UNTIL_FREE.format(backend=holder.backend))
        return Watch(self.labctl.argv("exec", self.inventory.primary.name, "--", *command))

    def strike(self, host: Host, pid: int, number: signal.Signals) -> int:
        """Send a signal; return when, in nanoseconds since 1970."""
        return int(self.program(host, "strike", str(pid), str(int(number))))

    def parent(self, host: Host, pid: int) -> int:
        """Return the parent of a process on a host: gunicorn's arbiter, of a process that serves."""
        return int(self.on(host, "ps", "--no-headers", "-o", "ppid", "--pid", str(pid)))

    def terminate(self, backend: int) -> int:
        """End a session at the server; return when that was asked for, in nanoseconds since 1970."""
        return int(self.psql(_TERMINATE.format(backend=backend)).partition("|")[0])

    def postgresql_began(self) -> int:
        """Return since when the server takes connections, in nanoseconds: its WAL writer began then."""
        return int(self.psql(_BEGAN))

    def labctl_at(self, verb: str, host: Host) -> int:
        """Use a verb of the lab on a host; return when it was begun, in nanoseconds since 1970."""
        at = time.time_ns()
        self.labctl(verb, host.name)
        return at

    def look(self, but: str = "") -> tuple[int, dict[str, dict[str, Any]]]:
        """Return the time, and what each process says of itself, by HOST/ROLE; {} of one that says nothing.

        The time is when the last had answered, in nanoseconds since 1970; `but` names one that is not asked.
        """
        urls = {name: url for name, url in self.inventory.health_urls().items() if name != but}
        return self._ask(self.inventory.primary, urls)

    def health(self) -> dict[str, dict[str, Any]]:
        """Return what each process says of itself, by HOST/ROLE; {} of one that says nothing."""
        return self.look()[1]

    def own_health(self, host: Host) -> tuple[int, dict[str, dict[str, Any]]]:
        """Return the time, and what a host's processes say when the host asks them itself."""
        urls = {
            name: url
            for name, url in self.inventory.health_urls().items()
            if name.startswith(f"{host.name}/")
        }
        return self._ask(host, urls)

    def _ask(self, host: Host, urls: dict[str, str]) -> tuple[int, dict[str, dict[str, Any]]]:
        at, *answers = json.loads(self.program(host, "ask", *urls.values()))
        said = {
            name: json.loads(body) if status else {}
            for name, (status, body) in zip(urls, answers, strict=True)
        }
        return int(at), said


def unsettled(health: dict[str, dict[str, Any]]) -> list[str]:
    """Return what keeps a cluster from being whole: all are well, each singleton is led once. Pure."""
    said = [
        f"{name} is {one.get('status', 'silent')} {one.get('reason', '')}".rstrip()
        for name, one in sorted(health.items())
        if one.get("status") != "ok"
    ]
    tasks = {task for one in health.values() for task in one.get("tasks", [])} - RESIDENTS
    led = [task for one in health.values() for task in one.get("leading", [])]
    said += [f"{task} is led {led.count(task)} times" for task in sorted(tasks) if led.count(task) != 1]
    return said


def owner(sockets: str) -> int:
    """Return the one process that has a socket, of what `ss --processes` says. Pure."""
    pids = {int(pid) for _, pid in _OWNER.findall(sockets)}
    assert len(pids) == 1, f"not one process: {sockets!r}"
    return pids.pop()


def _psql(statement: str) -> list[str]:
    return [
        *("runuser", "--user", "postgres", "--", "psql", "--no-psqlrc", "--quiet", "--tuples-only"),
        *("--no-align", "--set=ON_ERROR_STOP=1", "--dbname=rota", "--command", statement),
    ]
