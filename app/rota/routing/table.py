"""Which app's requests go where: decided from what the database says, for the proxy to do. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.servers.silence import silent
from rota.store.instances import InstanceRow, State
from rota.store.servers import Reported, ServerRow

WEB = "web"
HELD = (State.ROUTED, State.STANDBY)


@dataclass(frozen=True, kw_only=True)
class Target:
    """One copy that requests may go to; one on standby only where no other answers."""

    copy: str
    server: str
    address: str
    port: int
    standby: bool = False


@dataclass(frozen=True, kw_only=True)
class AppRoutes:
    """Where an app's requests go, and by which names.

    Its health path is what the proxy asks; without one it only connects. `gate`
    is the version of its sign-in gate, 0 where it is open to all.
    """

    app: str
    targets: tuple[Target, ...]
    health_path: str = ""
    names: tuple[str, ...] = ()
    gate: int = 0


@dataclass(frozen=True)
class Pool:
    """The servers as the newest look found them; while the hub is deaf nobody's silence counts."""

    servers: Mapping[str, ServerRow]
    since: datetime  # from when the hub could hear
    now: datetime
    report_every: int

    @property
    def deaf(self) -> bool:
        """Whether every server is silent, so that it is the hub that hears nobody."""
        return bool(self.servers) and all(self.silent(name) for name in self.servers)

    def silent(self, name: str) -> bool:
        """Tell whether a server has missed its last two reports."""
        server = self.servers.get(name)
        if server is None or server.state != "enrolled":
            return True
        return silent(server.reported_at, self.since, self.now, self.report_every)


def routes(
    app: str, copies: Iterable[InstanceRow], reported: Sequence[Reported], pool: Pool, health_path: str
) -> AppRoutes:
    """Return where an app's requests go now.

    A target's server reported within its last two intervals and its last health
    check passed. Where no target is left so, or the hub is deaf, all that the
    database holds stay: a proxy that checks by itself knows more than nobody.
    """
    held = [copy for copy in copies if copy.process_type == WEB and copy.state in HELD]
    said = {(each.server, each.instance, each.release): each for each in reported}

    def well(copy: InstanceRow) -> bool:
        report = said.get((copy.server, copy.name, copy.release))
        return report is not None and report.healthy and not pool.silent(copy.server)

    good = held if pool.deaf else [copy for copy in held if well(copy)]
    targets = tuple(
        Target(
            copy=copy.copy,
            server=copy.server,
            address=pool.servers[copy.server].address,
            port=copy.port,
            standby=copy.state is State.STANDBY,
        )
        for copy in sorted(good, key=lambda each: (each.name, each.release, each.server))
        if copy.server in pool.servers
    )
    return AppRoutes(app=app, targets=targets, health_path=health_path)
