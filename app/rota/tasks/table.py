"""Every background task: its name, its role, where it may run, and its body."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rota.configuration.opening import Opener
from rota.coordination.bus.events import ActWaiting
from rota.coordination.leader import LedTask
from rota.coordination.residents import Resident
from rota.hooks.walk import Walk
from rota.link.keys import hub_keys
from rota.link.post import Post
from rota.logs.local import straight_to
from rota.logs.shelf import MEGABYTE, Shelf
from rota.roles import Role
from rota.settings import Settings
from rota.tasks.backups import Scheduler
from rota.tasks.certificates import Keeper
from rota.tasks.checkpointer import Checkpointer
from rota.tasks.configuration import TellKey
from rota.tasks.flow import Placement, Reaper
from rota.tasks.hooks import HooksWorker
from rota.tasks.local import LocalServer, server_name
from rota.tasks.maintenance import Nightly
from rota.tasks.outbox import Drain
from rota.tasks.parts import Parts
from rota.tasks.queue import QueueWorker
from rota.tasks.routing import RoutingSync
from rota.tasks.servers import Link, Watch
from rota.tlog.disk import LocalDisk


@dataclass(frozen=True)
class TaskEntry:
    """One row. A singleton has a `body` and runs under the leader lock of its name.

    A `resident` runs in every process that has the role.
    """

    name: str
    role: Role
    primary: bool
    body: Callable[[Parts], LedTask] | None = None
    resident: Callable[[Parts], Resident] | None = None


def _nightly(parts: Parts) -> LedTask:
    return Nightly(parts.settings, parts.database)


def _scheduler(parts: Parts) -> LedTask:
    nudge = partial(parts.bus.publish, ActWaiting())
    return Scheduler(parts.settings, parts.database, nudge, parts.operators)


def _checkpointer(parts: Parts) -> LedTask:
    return Checkpointer(parts.settings, parts.database, parts.bus)


def _drain(parts: Parts) -> LedTask:
    return Drain(parts.settings, parts.database, parts.bus)


def _hooks(parts: Parts) -> LedTask:
    walk = Walk(parts.database, LocalDisk(parts.settings.tlog_directory))
    return HooksWorker(parts.database, parts.bus, walk, parts.delivering())


def _link(parts: Parts) -> LedTask:
    return Link(parts.database, parts.bus, hub_keys(parts.settings), parts.orders(), Post())


def _watch(parts: Parts) -> LedTask:
    return Watch(parts.database, parts.bus, parts.settings.servers.report_every)


def _placement(parts: Parts) -> LedTask:
    return Placement(parts.database, parts.bus)


def _reaper(parts: Parts) -> LedTask:
    return Reaper(parts.database, parts.bus)


def _routing(parts: Parts) -> LedTask:
    return RoutingSync(parts.settings, parts.database, parts.bus, parts.proxy)


def _configuration(parts: Parts) -> LedTask:
    return TellKey(Opener(parts.settings, parts.database))


def _certificates(parts: Parts) -> LedTask:
    return Keeper(parts.settings, parts.database, parts.bus)


def _local(parts: Parts) -> Resident:
    shelf = Shelf(parts.settings.logs_directory, parts.settings.logs.keep_mb * MEGABYTE)
    told = straight_to(shelf, server_name(parts.settings.name))
    return LocalServer(parts.settings, parts.database, told)


TABLE: tuple[TaskEntry, ...] = (
    TaskEntry("maintenance.nightly", Role.WORKER, primary=True, body=_nightly),
    TaskEntry("backups.scheduler", Role.WORKER, primary=True, body=_scheduler),
    TaskEntry("tlog.checkpointer", Role.WEB, primary=False, body=_checkpointer),
    TaskEntry("tlog.outbox", Role.WEB, primary=False, body=_drain),
    TaskEntry("hooks.worker", Role.WORKER, primary=False, body=_hooks),
    TaskEntry("servers.link", Role.WORKER, primary=True, body=_link),
    TaskEntry("servers.local", Role.WORKER, primary=True, resident=_local),
    TaskEntry("servers.watch", Role.WORKER, primary=False, body=_watch),
    TaskEntry("routing.sync", Role.WORKER, primary=True, body=_routing),
    TaskEntry("routing.certificates", Role.WORKER, primary=True, body=_certificates),
    TaskEntry("flow.placement", Role.WORKER, primary=False, body=_placement),
    TaskEntry("flow.reaper", Role.WORKER, primary=False, body=_reaper),
    TaskEntry("configuration.key", Role.WORKER, primary=True, body=_configuration),
    TaskEntry("queue.worker", Role.WORKER, primary=False, resident=QueueWorker),
)


def tasks_for(settings: Settings) -> list[TaskEntry]:
    """Return the tasks that a process with these settings runs or contends for, by name."""
    chosen = [
        entry
        for entry in TABLE
        if entry.role in settings.roles and (settings.server.primary or not entry.primary)
    ]
    return sorted(chosen, key=lambda entry: entry.name)
