"""gunicorn inside this process: its settings, and how it ends."""

import signal
import socket
from typing import TYPE_CHECKING, Any

import structlog
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger

from rota import wiring
from rota.drivers.memory import keep_pieces
from rota.drivers.systemd import Notifier
from rota.errors import EXIT_CONFIG, ConfigurationError
from rota.settings import Settings
from rota.web.app import create_app
from rota.web.endpoint import App
from rota.web.listener import BACKLOG

if TYPE_CHECKING:
    from rota.hub import Hub

log = structlog.get_logger("rota.serve")

GRACEFUL = 20  # seconds for a stop; the unit's TimeoutStopSec is longer
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class HubArbiter(Arbiter):
    """gunicorn's own process above the one that serves.

    A worker that says EXIT_CONFIG ends the whole program with that code.
    Ctrl-C and a terminal that closes stop as gently as systemd does. There is
    one worker, whatever signal asks for more of them or for other code.
    """

    APP_LOAD_ERROR = EXIT_CONFIG

    def __init__(self, app: BaseApplication) -> None:
        """Run this app, under our own name in what is logged."""
        super().__init__(app)
        self.master_name = "rota"

    def halt(self, reason: str | None = None, exit_status: int = 0) -> None:
        """End. What cannot run has said itself why, better than gunicorn could."""
        super().halt(None if exit_status == EXIT_CONFIG else reason, exit_status)

    def spawn_worker(self) -> int:
        """Fork a worker that hears of a stop, however early it comes.

        Until its loop turns, a signal would reach a handler that is only ours,
        or none. So it waits; `HubWorker.init_signals` lets it through.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        pid: int = super().spawn_worker()  # returns here alone: a worker ends in it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        return pid

    def handle_int(self) -> None:
        """Stop gently on Ctrl-C."""
        self.handle_term()

    handle_hup = handle_int

    def handle_ttin(self) -> None:
        """Leave the number of workers, and the program, as they are."""

    handle_ttou = handle_usr2 = handle_winch = handle_ttin


class HubLogger(Logger):
    """Leaves logging to ours: gunicorn's lines pass through the standard library's root logger."""

    def setup(self, cfg: Any) -> None:
        """Keep gunicorn from adding handlers of its own."""
        self.loglevel = self.error_log.level
        self.error_log.propagate = True
        self.access_log.propagate = False


class HubServer(BaseApplication):
    """Loads the app in gunicorn's worker; `hub` and `notifier` are what that worker needs of us."""

    def __init__(self, settings: Settings, notifier: Notifier, listener: socket.socket | None) -> None:
        """Serve a hub with these settings, on this socket or on those that systemd passed."""
        self.settings = settings
        self.notifier = notifier
        # gunicorn closes the descriptor itself; what systemd passed it finds by itself
        self._bind = [f"fd://{listener.detach()}"] if listener else []
        self.hub: Hub | None = None
        super().__init__()

    def load_config(self) -> None:
        """Set what differs from gunicorn's defaults, and say what must not change under us."""
        options: dict[str, Any] = {
            "bind": self._bind,
            "workers": 1,
            "worker_class": "rota.web.gunicorn_worker.HubWorker",
            "asgi_lifespan": "on",
            "asgi_loop": "uvloop",
            "http_parser": "python",
            "asgi_disconnect_grace_period": 1,
            "graceful_timeout": GRACEFUL,
            "timeout": 30,
            "keepalive": 75,
            "backlog": BACKLOG,
            "limit_request_line": 8190,
            "limit_request_fields": 100,
            "control_socket_disable": True,
            "max_requests": 0,
            "preload_app": False,
            "umask": 0o077,
            "accesslog": None,
            "logger_class": HubLogger,
            "proc_name": "rota",
        }
        for name, value in options.items():
            self.cfg.set(name, value)

    def load(self) -> App:
        """Make the hub and its app, in the process that serves them."""
        keep_pieces()
        try:
            self.hub = wiring.make_hub(self.settings)
        except ConfigurationError as error:
            log.error("cannot run", reason=str(error))  # noqa: TRY400 - an operator's mistake, not a crash
            raise SystemExit(error.exit_code) from error
        return create_app(self.hub)

    def serve(self) -> int:
        """Run until told to stop; return the exit code."""
        try:
            HubArbiter(self).run()
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else 1
        return 0
