"""A real pgbouncer before a test's PostgreSQL, which shares sessions between its clients."""

import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.postgres import PASSWORD, ROLE, Server, as_postgres, free_port
from tests.support.wait import wait_for

CONFIG = """\
[databases]
rota = host=127.0.0.1 port={server} dbname=rota
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {directory}/users
pool_mode = transaction
default_pool_size = 3
logfile = {directory}/log
"""


@dataclass
class Pooler:
    """One pgbouncer in transaction mode."""

    directory: Path
    port: int
    process: "subprocess.Popen[bytes]"

    @classmethod
    def start(cls, server: Server) -> "Pooler":
        """Start one and wait until it listens."""
        binary = shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", ""))
        if binary is None:
            raise RuntimeError(
                "pgbouncer is not installed: apt install pgbouncer, or run `make test` as root"
            )
        directory, port = Path(tempfile.mkdtemp(prefix="rota-pgbouncer-")), free_port()
        (directory / "users").write_text(f'"{ROLE}" "{PASSWORD}"\n')
        (directory / "pgbouncer.ini").write_text(
            CONFIG.format(server=server.port, port=port, directory=directory)
        )
        if os.geteuid() == 0:
            for path in (directory, *directory.iterdir()):
                shutil.chown(path, "postgres", "postgres")
        process = subprocess.Popen(
            as_postgres([binary, "--quiet", str(directory / "pgbouncer.ini")]), stderr=subprocess.DEVNULL
        )
        pooler = cls(directory, port, process)
        log = directory / "log"
        wait_for(lambda: log.exists() and "process up" in log.read_text())
        return pooler

    def url(self, server: Server) -> str:
        """Return the server's address as it is through this pooler."""
        return server.url.replace(f":{server.port}/", f":{self.port}/")

    def destroy(self) -> None:
        """Stop it and remove all it kept."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=10)
        shutil.rmtree(self.directory)
