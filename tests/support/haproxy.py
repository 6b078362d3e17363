"""A real HAProxy on loopback that runs the Ansible role's own configuration, and servers to put behind it."""

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jinja2
import yaml
from plugins.modules import rota_certificate, rota_proxy
from tests.support.postgres import free_port
from tests.support.raw import TIMEOUT, Answer, Connection
from tests.support.wait import wait_for

ROLE = Path(__file__).parents[2] / "roles" / "haproxy"
HUB = "hub.example"
# Another one, as Debian 13's, is tried with ROTA_TEST_HAPROXY=/path/to/haproxy.
PROGRAM = os.environ.get("ROTA_TEST_HAPROXY", "/usr/sbin/haproxy")
DATA = yaml.safe_load((ROLE / "vars" / "main.yml").read_text())["_haproxy_data"]
# A test may run without root, and has no other user to become.
ROOTS = ("    user haproxy", "    group haproxy", "    chroot ")
BACKENDS = ["hub", "hub_rooms"]


def render(**variables: Any) -> str:
    """Return the role's haproxy.cfg for these variables, its own defaults below them."""
    values = {
        **yaml.safe_load((ROLE / "defaults" / "main.yml").read_text()),
        **yaml.safe_load((ROLE / "vars" / "main.yml").read_text()),
        "haproxy_hub_name": HUB,
        "_haproxy_url": f"https://{HUB}",
        **variables,
    }
    environment = jinja2.Environment(
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - the configuration is not HTML
    )
    environment.filters["to_json"] = json.dumps
    return environment.from_string((ROLE / "templates" / "haproxy.cfg.j2").read_text()).render(values)


def prepared(directory: Path) -> Path:
    """Make the directory of what the worker writes, as the role does; return it."""
    (directory / "certificates").mkdir(parents=True)
    for name in DATA:
        (directory / name).write_text("1\n" if name == "servers.state" else "")
    return directory


@dataclass
class Haproxy:
    """One HAProxy, as systemd runs it: a master, and a worker that a reload replaces."""

    directory: Path
    variables: dict[str, Any]
    process: "subprocess.Popen[bytes]" = field(init=False)

    @classmethod
    def start(cls, directory: Path, web: dict[str, int], **variables: Any) -> "Haproxy":
        """Start it before these servers (their ports, by name) and wait until it serves."""
        certificate = directory / "hub.pem"
        certificate.write_text(rota_certificate.make(HUB))
        proxy = cls(
            directory,
            {
                "haproxy_bind": ["127.0.0.1"],
                "haproxy_http_port": free_port(),
                "haproxy_https_port": free_port(),
                "_haproxy_certificate": str(certificate),
                "_haproxy_socket": str(directory / "admin.sock"),
                "haproxy_apps_socket": str(directory / "apps.sock"),
                "haproxy_apps_directory": str(prepared(directory / "apps")),
                **variables,
            },
        )
        proxy.configure(web)
        proxy.begin()
        return proxy

    def begin(self) -> None:
        """Start it with the configuration as it stands, and wait until it serves."""
        with self.log.open("ab") as out:
            argv = [PROGRAM, "-W", "-f", str(self.configuration)]
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            wait_for(self.answers)
        except BaseException:
            self.stop()
            raise

    @property
    def configuration(self) -> Path:
        """The configuration's file."""
        return self.directory / "haproxy.cfg"

    @property
    def log(self) -> Path:
        """What it writes."""
        return self.directory / "haproxy.log"

    @property
    def port(self) -> int:
        """The port with TLS."""
        return int(self.variables["haproxy_https_port"])

    @property
    def plain_port(self) -> int:
        """The port without."""
        return int(self.variables["haproxy_http_port"])

    @property
    def runtime(self) -> rota_proxy.Runtime:
        """The runtime socket."""
        return rota_proxy.Runtime(self.variables["_haproxy_socket"])

    def configure(self, web: dict[str, int]) -> None:
        """Write the configuration for these servers."""
        servers = [{"name": name, "address": f"127.0.0.1:{port}"} for name, port in web.items()]
        text = (
            render(**self.variables, haproxy_web=servers)
            .replace("user root group root ", "")
            .replace("user rota group rota ", "")
        )
        lines = [line for line in text.splitlines() if not line.startswith(ROOTS)]
        self.configuration.write_text("\n".join([*lines, ""]))

    def answers(self) -> bool:
        """Tell whether it serves."""
        assert self.process.poll() is None, self.log.read_text()
        with (
            contextlib.suppress(OSError, rota_proxy.Failed),
            socket.create_connection(("127.0.0.1", self.port)),
        ):
            return bool(self.runtime.ask("show stat"))
        return False

    def servers(self) -> list[rota_proxy.Server]:
        """Return the servers as it shows them."""
        return rota_proxy.read(self.runtime.ask("show stat"), BACKENDS)

    def settled(self) -> bool:
        """Tell whether every server has been checked as often as counts."""
        return all(server.up and server.proved for server in self.servers())

    def connect(self) -> "Secure":
        """Return a connection with TLS that believes this proxy's certificate alone."""
        return Secure(self.port, self.variables["_haproxy_certificate"])

    def ask(self, method: str, path: str, *headers: str) -> Answer:
        """Send one request on a connection of its own; return the answer."""
        with self.connect() as connection:
            return connection.ask(method, path, *headers)

    def reload(self) -> None:
        """Have the configuration read again, as `systemctl reload` does."""
        self.process.send_signal(signal.SIGUSR2)

    def kill(self) -> None:
        """Kill it, the process that serves first, as the kernel does when there is no memory."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.process.kill()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self.process.wait(timeout=10)

    def stop(self) -> None:
        """End it at once."""
        self.process.terminate()
        self.process.wait(timeout=10)


class Secure(Connection):
    """One connection with TLS; the certificate must be for the hub's name."""

    def __init__(self, port: int, certificate: str, protocols: tuple[str, ...] = ("http/1.1",)) -> None:
        context = ssl.create_default_context(cafile=certificate)
        context.set_alpn_protocols(list(protocols))
        plain = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self.tls = self._socket = context.wrap_socket(plain, server_hostname=HUB)

    def until(self, mark: bytes) -> bytes:
        """Return what comes, until this mark has come."""
        found = b""
        while mark not in found:
            data = self.tls.recv(65536)
            assert data, f"closed after {found!r}"
            found += data
        return found


class Web(ThreadingHTTPServer):
    """A server that answers as a hub's process does at /health/process, and at other paths as a test says."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, name: str, port: int = 0) -> None:
        self.name = name
        self.healthy = True
        self.asked: list[tuple[str, str]] = []
        self.headers: list[list[tuple[str, str]]] = []
        self.paths: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that left."""

    @classmethod
    @contextlib.contextmanager
    def serving(cls, name: str, port: int = 0) -> Iterator["Web"]:
        """Give a server that runs until the end of the block, or until it is closed."""
        server = cls(name, port)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.close()
            thread.join()

    def close(self) -> None:
        """Stop listening: connections are refused from here on."""
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Web

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def _serve(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/health/process":
            self.answer(200 if self.server.healthy else 503, b"{}")
            return
        self.server.asked.append((self.command, path))
        self.server.headers.append(list(self.headers.items()))
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.paths.get(path, lambda own: _Handler.answer(own, 200, self.server.name.encode()))(self)

    do_GET = do_HEAD = do_POST = do_PUT = _serve  # noqa: N815 - the base class's names

    def answer(self, status: int, body: bytes) -> None:
        """Answer with a body."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
