"""Puts a process together. The only module that knows every other.

What belongs to PostgreSQL is imported where it is used: on SQLite nobody pays for it.
"""

import os
import pwd
from typing import TYPE_CHECKING

from rota.acts.access import make_tlog
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.local import LocalBus
from rota.coordination.leader import Leader
from rota.coordination.local import LocalLocks
from rota.coordination.locks import Locks
from rota.coordination.queue.queue import TableQueue
from rota.coordination.queue.watch import Watch
from rota.coordination.residents import Residents
from rota.errors import ConfigurationError
from rota.hub import Coordination, Hub
from rota.settings import Settings
from rota.store.database import Database
from rota.store.deliveries import Deliveries
from rota.store.jobs import Jobs
from rota.store.sqlite import SqliteDatabase
from rota.tasks.parts import Parts
from rota.tasks.table import tasks_for

if TYPE_CHECKING:
    from rota.store.postgres_connection import Address


def make_hub(settings: Settings) -> Hub:
    """Return a hub process, not yet started."""
    database = make_database(settings)
    leader, residents, bus = Leader(make_locks(settings, database)), Residents(), make_bus(settings)
    watch, deliveries = Watch(Jobs(database).counts), Watch(Deliveries(database).counts)
    together = Coordination(leader, residents, bus, TableQueue(database, bus), watch, deliveries)
    parts = Parts(settings, database, bus, together.queue, together.tally, together.tries)
    entries = tasks_for(settings)
    for entry in entries:
        if entry.body is not None:
            leader.run(entry.name, entry.body(parts))
        if entry.resident is not None:
            residents.run(entry.name, entry.resident(parts))
    tlog = make_tlog(settings, database, bus)
    return Hub(settings, database, together, tlog, tuple(entry.name for entry in entries))


def make_database(settings: Settings) -> Database:
    """Return the database that the settings name, not yet opened."""
    if settings.sqlite:
        return SqliteDatabase(settings.sqlite_path, holder(settings))
    from rota.store.postgres import PostgresDatabase

    database = settings.database
    address, direct = (
        _address(settings, database.url),
        _address(settings, database.direct_url or database.url),
    )
    return PostgresDatabase(address, direct, database.pool_size)


def make_locks(settings: Settings, database: Database) -> Locks:
    """Return the locks that go with the database."""
    if settings.sqlite:
        return LocalLocks(database, holder(settings))
    from rota.coordination.advisory import AdvisoryLocks

    return AdvisoryLocks(_address(settings, settings.database.direct_url or settings.database.url))


def make_bus(settings: Settings) -> Bus:
    """Return the event bus that goes with the database, not yet started."""
    if settings.sqlite:
        return LocalBus()
    from rota.coordination.bus.notify import NotifyBus

    return NotifyBus(_address(settings, settings.database.direct_url or settings.database.url))


def holder(settings: Settings) -> str:
    """Return how this process names itself to the others."""
    return f"{settings.name}:{os.getpid()}"


def prepare_directories(settings: Settings) -> None:
    """Make the data directory, for this user alone, where it is missing.

    Raises ConfigurationError where it cannot be made or belongs to somebody else.
    """
    data = settings.server.data
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"server.data: {data} cannot be made: {error.strerror}: give another directory with --data"
        ) from error
    if not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigurationError(
            f"server.data: this user may not write to {data}: run as its owner, or give another with --data"
        )
    owner = data.stat().st_uid
    if os.geteuid() == 0 and owner != 0:
        raise ConfigurationError(
            f"server.data: {data} belongs to {_user(owner)}, who could not read what root makes there: "
            "run as that user, or give another with --data"
        )


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _address(settings: Settings, url: str) -> "Address":
    from rota.store.postgres_connection import Address

    database = settings.database
    return Address(url, database.password, database.schema, holder(settings))
