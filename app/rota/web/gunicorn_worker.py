"""gunicorn's worker class for the hub: a start that is announced when it is true, a stop that loses nothing.

On SIGTERM, in this order: locks are given back, streams are told to go, the
listening sockets close, requests in flight are answered with `Connection:
close`, idle connections close after IDLE, and what is left at the end of the
graceful time, less RESERVE for the hub's own stop, is cut.

This leans on private names of gunicorn, which is why gunicorn is pinned
exactly; tests/integration/ shows that they still do what we
think.
"""

import asyncio
import signal
import socket
from typing import Any

import structlog
from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.workers import gasgi

from rota.drivers.systemd import Notifier, keep_watchdog
from rota.hub import Hub
from rota.roles import Role
from rota.web.server import STOPS
from rota.web.streams import ABORT

IDLE = 2.0  # seconds into a stop after which a connection that waits for a request is closed
RESERVE = 3.0  # seconds of the graceful time kept for the hub's own stop
ANSWERS = 10.0  # seconds that the app has to answer its first request

log = structlog.get_logger("rota.serve")


class HubProtocol(ASGIProtocol):
    """One connection, known to its worker, that announces its close once the worker drains."""

    def connection_made(self, transport: Any) -> None:
        """Let the worker know of this connection."""
        self.worker.connections.add(self)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Let the worker forget this connection."""
        self.worker.connections.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass on what is in the middle of a body as it is: the parser would copy each piece twice."""
        parser = self._callback_parser
        inside = getattr(parser, "_state", "") == "body" and not parser._buffer  # noqa: SLF001
        if self.reader is not None or not inside or len(data) >= parser._body_remaining:  # noqa: SLF001
            super().data_received(data)
            return
        parser._body_remaining -= len(data)  # noqa: SLF001
        parser._on_body(data)  # noqa: SLF001
        if not self._reading_paused and self._http1_buffered() > self._max_buffer_size:
            self._pause_reading()

    def waits(self) -> bool:
        """Tell whether nothing is being answered on this connection."""
        return bool(self._awaiting_request and not self._finishing_calls)

    def _build_http_scope(self, request: Any, sockname: Any, peername: Any) -> dict[str, Any]:
        """Let a route end its connection at once, whatever waits to be sent on it."""
        scope: dict[str, Any] = super()._build_http_scope(request, sockname, peername)
        scope[ABORT] = self.transport.abort
        return scope

    def _will_close(self, request: Any, response_requires_close: bool) -> bool:
        return self.worker.draining or bool(super()._will_close(request, response_requires_close))


gasgi.ASGIProtocol = HubProtocol


class HubWorker(gasgi.ASGIWorker):
    """Serves one hub."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Start as gunicorn's worker does."""
        super().__init__(*args, **kwargs)
        self.draining = False
        self.connections: set[HubProtocol] = set()
        self._announced = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def hub(self) -> Hub:
        """The hub that the app was made for."""
        hub: Hub | None = self.app.hub
        assert hub is not None  # noqa: S101 - load() has run before anything here does
        return hub

    @property
    def notifier(self) -> Notifier:
        """The way to systemd."""
        notifier: Notifier = self.app.notifier
        return notifier

    def init_signals(self) -> None:
        """Stop gently on Ctrl-C too, and with the terminal: it tells every process of the group.

        Signals that came since the fork have waited, and come through once the loop turns.
        """
        super().init_signals()
        for number in STOPS:
            self.loop.add_signal_handler(number, self.handle_exit_signal)
        self.loop.call_soon(signal.pthread_sigmask, signal.SIG_UNBLOCK, STOPS)

    def notify(self) -> None:
        """Beat, as each second; the first beat comes when the sockets are being served."""
        super().notify()
        if self.servers and not self._announced:
            self._announced = True
            for listener in self.sockets:
                listener.sock.listen(self.cfg.backlog)  # create_server() has set it back to 100
            self._spawn(self._announce())
            self._spawn(keep_watchdog(self.notifier))
            self._spawn(self._watch_failure())

    def handle_exit_signal(self) -> None:
        """Begin a graceful stop, once; before anything is served, just end."""
        if not self.servers:
            self.alive = False
        elif not self.draining:
            self.draining = True
            self._spawn(self._drain())

    def run(self) -> None:
        """Serve, then end with the code that the hub's failure asks for."""
        super().run()
        if self.hub.exit_code:
            raise SystemExit(self.hub.exit_code)

    async def _announce(self) -> None:
        """Tell systemd that we are ready, once the database was tried and the app has answered a request.

        The request comes over a pair of sockets: the address that we listen on
        may belong to a tunnel that is not up yet, and nothing waits for it.
        """
        path = "/health/process" if Role.WEB in self.hub.settings.roles else "/health"
        await self.hub.settled.wait()
        async with asyncio.timeout(ANSWERS):
            status = await self._ask(path)
        if self.draining or self.hub.failed.is_set():
            return  # told to stop, or failed, before it was ready: it never will be
        address = _readable(self.sockets[0].sock.getsockname())
        log.info("serving", roles=list(self.hub.health.roles), address=address, first_answer=status)
        self.notifier.send("READY=1")

    async def _ask(self, path: str) -> int:
        """Send one request to ourselves; return the status of the answer."""
        ours, theirs = socket.socketpair()
        await self.loop.connect_accepted_socket(lambda: HubProtocol(self), theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        line = await reader.readline()
        writer.close()
        return int(line.split()[1])

    async def _watch_failure(self) -> None:
        await self.hub.failed.wait()
        self.handle_exit_signal()

    async def _drain(self) -> None:
        began = self.loop.time()
        self.notifier.send("STOPPING=1")
        await self.hub.resign()
        self.hub.draining.set()
        for server in self.servers:
            server.close()
        end = began + self.cfg.graceful_timeout - RESERVE
        while self.connections and self.loop.time() < end:
            if self.loop.time() - began > IDLE:
                for connection in [one for one in self.connections if one.waits()]:
                    connection.transport.close()
            await asyncio.sleep(0.05)
        for connection in list(self.connections):
            connection.transport.abort()
        self.alive = False

    def _spawn(self, work: Any) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("the server's own task failed", exc_info=task.exception())
            self.alive = False


def _readable(address: Any) -> str:
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)
