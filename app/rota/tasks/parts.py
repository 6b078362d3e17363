"""What the background tasks and the jobs of one process are made of."""

from dataclasses import dataclass, field
from pathlib import Path

from rota.artifacts.mirroring import Mirroring
from rota.builds.building import Building
from rota.coordination.bus.announcer import Announcer
from rota.coordination.bus.bus import Bus
from rota.coordination.queue.queue import Queue
from rota.coordination.queue.worker import Tally
from rota.deploys.driver import Driver
from rota.hooks.courier import Courier, Tries
from rota.hooks.delivering import Delivering, Hearers
from rota.link.orders import Orders
from rota.link.provisions import KeptReleases, Proofs
from rota.mail.mailer import Mailer
from rota.mail.notices import Operators
from rota.routing.haproxy import HaproxyProxy
from rota.routing.proxy import NoProxy, Proxy
from rota.settings import Settings
from rota.store.database import Database
from rota.store.tlog import Outbox


@dataclass(frozen=True)
class Parts:
    """One process's own."""

    settings: Settings
    database: Database
    bus: Bus
    queue: Queue
    tally: Tally
    tries: Tries = field(default_factory=Tries)

    @property
    def mailer(self) -> Mailer:
        """What sends mail."""
        return Mailer(self.settings, self.database, self.queue)

    @property
    def operators(self) -> Operators:
        """Those who are told of what went wrong."""
        return Operators(self.settings, self.mailer)

    def orders(self) -> Orders:
        """Return what completes orders to servers."""
        return Orders(
            KeptReleases(self.settings, self.database),
            Proofs(Outbox(self.database), self.settings.tlog_directory),
        )

    @property
    def building(self) -> Building:
        """What builds."""
        return Building(self.settings, self.database, self.queue, self.bus)

    @property
    def mirroring(self) -> Mirroring:
        """What copies artifacts elsewhere."""
        return Mirroring(self.settings, self.database, self.queue)

    def driver(self) -> Driver:
        """Return what carries deploys on."""
        return Driver(self.settings, self.database, self.bus)

    def proxy(self) -> Proxy:
        """Return what takes requests for apps."""
        if self.settings.routing.proxy == "none":
            return NoProxy()
        return HaproxyProxy(self.settings.routing_directory, Path(self.settings.routing.socket))

    def delivering(self) -> Delivering:
        """Return what tries deliveries, for one task, which closes it."""
        courier = Courier(self.settings, self.tries)
        return Delivering(self.database, self.queue, courier, Hearers(self.operators, Announcer(self.bus)))
