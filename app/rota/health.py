"""What a process says of itself: a frozen view, refreshed every two seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class DatabaseHealth:
    """Whether the database answers, and what it is."""

    kind: str
    reachable: bool = False
    server: str = ""
    schema: int = 0
    reason: str = "not reached yet"


@dataclass(frozen=True, kw_only=True)
class TlogHealth:
    """Whether the transparency log can be used, and how many entries there were at the last look."""

    reason: str = ""
    size: int = 0
    published: int = 0


@dataclass(frozen=True, kw_only=True)
class Health:
    """One view of the process. `tasks` are those of this process, led or not; `residents` need no lock."""

    name: str
    version: str
    roles: tuple[str, ...]
    primary: bool
    leading: tuple[str, ...] = ()
    failing: Mapping[str, str] = field(default_factory=dict)  # task → why it does not do its work
    tasks: tuple[str, ...] = ()
    residents: tuple[str, ...] = ()
    database: DatabaseHealth
    tlog: TlogHealth = field(default_factory=TlogHealth)
    draining: bool = False
    started_at: int = field(default=0)  # microseconds since 1970, by this process's clock

    @property
    def reason(self) -> str:
        """Why this process cannot do its work; empty when it can."""
        if not self.database.reachable:
            return f"database: {self.database.reason}"
        return f"tlog: {self.tlog.reason}" if self.tlog.reason else ""

    def document(self) -> dict[str, object]:
        """Return what `/health` answers."""
        database: dict[str, object] = {"kind": self.database.kind, "reachable": self.database.reachable}
        if self.database.reachable:
            database |= {"server": self.database.server, "schema": self.database.schema}
        else:
            database["reason"] = self.database.reason
        return {
            "status": "failing" if self.reason else "ok",
            **({"reason": self.reason} if self.reason else {}),
            "name": self.name,
            "version": self.version,
            "roles": list(self.roles),
            "primary": self.primary,
            "leading": list(self.leading),
            "failing": dict(self.failing),
            "tasks": list(self.tasks),
            "database": database,
            "tlog": {
                "reachable": not self.tlog.reason,
                **(
                    {"reason": self.tlog.reason}
                    if self.tlog.reason
                    else {"size": self.tlog.size, "published": self.tlog.published}
                ),
            },
            "draining": self.draining,
        }
