"""Every background task: its name, its role, where it may run, and its body."""

from collections.abc import Callable
from dataclasses import dataclass

from rota.coordination.leader import LedTask
from rota.roles import Role
from rota.settings import Settings
from rota.store.database import Database
from rota.tasks.backups import Scheduler
from rota.tasks.checkpointer import Checkpointer
from rota.tasks.maintenance import Nightly
from rota.tasks.outbox import Drain


@dataclass(frozen=True)
class TaskEntry:
    """One row: a singleton runs under the leader lock of its name."""

    name: str
    role: Role
    primary: bool
    body: Callable[[Settings, Database], LedTask]


TABLE: tuple[TaskEntry, ...] = (
    TaskEntry("maintenance.nightly", Role.WORKER, primary=True, body=Nightly),
    TaskEntry("backups.scheduler", Role.WORKER, primary=True, body=Scheduler),
    TaskEntry("tlog.checkpointer", Role.WEB, primary=False, body=Checkpointer),
    TaskEntry("tlog.outbox", Role.WEB, primary=False, body=Drain),
)


def tasks_for(settings: Settings) -> list[TaskEntry]:
    """Return the tasks that a process with these settings contends for, by name."""
    chosen = [
        entry
        for entry in TABLE
        if entry.role in settings.roles and (settings.server.primary or not entry.primary)
    ]
    return sorted(chosen, key=lambda entry: entry.name)
