"""A real PostgreSQL server that the tests start themselves, on loopback, and stop again."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import psycopg.sql

PASSWORD = "a test's own password: %&'"
ROLE = "rota"
START = 30
# A test asks for no durability, and for little memory.
QUICK = ("-c", "fsync=off", "-c", "max_connections=120", "-c", "shared_buffers=32MB")


def binary(name: str) -> str:
    """Return the newest server program of this name. Debian keeps them out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    if found:
        return str(found[-1])
    on_path = shutil.which(name)
    if on_path is None:
        raise RuntimeError(f"{name} is not installed: apt install postgresql, or run `make test` as root")
    return on_path


def free_port() -> int:
    """Return a loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def as_postgres(argv: Sequence[str]) -> list[str]:
    """Return the argv that runs as the user postgres: the server refuses to run as root."""
    if os.geteuid() != 0:
        return list(argv)
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *argv]


@dataclass
class Server:
    """One cluster of its own in a temporary directory."""

    directory: Path
    port: int
    options: tuple[str, ...] = QUICK
    process: subprocess.Popen[bytes] | None = None
    _schemas: int = field(default=0)

    @classmethod
    def create(cls, options: tuple[str, ...] = QUICK) -> "Server":
        """Initialise and start a server with a role and a database named rota."""
        directory = Path(tempfile.mkdtemp(prefix="rota-pg-"))
        if os.geteuid() == 0:
            shutil.chown(directory, "postgres", "postgres")
        server = cls(directory, free_port(), options)
        subprocess.run(
            as_postgres(
                [
                    binary("initdb"),
                    "--pgdata",
                    str(directory / "data"),
                    "--auth-local=trust",
                    "--auth-host=scram-sha-256",
                    "--encoding=UTF8",
                    "--locale=C.UTF-8",
                    "--no-sync",
                    "--username=postgres",
                ]
            ),
            check=True,
            stdout=subprocess.DEVNULL,
        )
        server.start()
        with server.admin() as connection:
            connection.execute(
                psycopg.sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                    psycopg.sql.Identifier(ROLE), psycopg.sql.Literal(PASSWORD)
                )
            )
            connection.execute("CREATE DATABASE rota OWNER rota")
        return server

    @property
    def url(self) -> str:
        """The address for the role rota, without its password."""
        return f"postgresql://{ROLE}@127.0.0.1:{self.port}/rota"

    def new_schema(self) -> str:
        """Return a schema name that no other test uses."""
        self._schemas += 1
        return f"hub_{self._schemas}"

    def admin(self, database: str = "postgres") -> "psycopg.Connection[tuple[object, ...]]":
        """Return a superuser's connection, in autocommit mode."""
        return psycopg.connect(
            host=str(self.directory), port=self.port, user="postgres", dbname=database, autocommit=True
        )

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        log = (self.directory / "log").open("ab")
        self.process = subprocess.Popen(
            as_postgres(
                [
                    binary("postgres"),
                    "-D",
                    str(self.directory / "data"),
                    *("-p", str(self.port), "-k", str(self.directory), "-h", "127.0.0.1"),
                    *self.options,
                ]
            ),
            stdout=log,
            stderr=log,
        )
        log.close()
        subprocess.run(
            [binary("pg_isready"), "-h", str(self.directory), "-p", str(self.port), "-t", str(START)],
            check=False,
            stdout=subprocess.DEVNULL,
        )
        self._wait_ready()

    def _wait_ready(self) -> None:
        for _ in range(START * 10):
            try:
                with self.admin():
                    return
            except psycopg.OperationalError:
                if self.process is None or self.process.poll() is not None:
                    break
                subprocess.run(
                    [binary("pg_isready"), "-h", str(self.directory), "-p", str(self.port), "-t", "1"],
                    check=False,
                    stdout=subprocess.DEVNULL,
                )
        raise RuntimeError(f"PostgreSQL did not start:\n{(self.directory / 'log').read_text()}")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT for a fast shutdown, SIGQUIT for a crash."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(timeout=START)
        self.process = None

    def destroy(self) -> None:
        """Stop the server and remove all it kept."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.directory)
