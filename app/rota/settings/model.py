"""The shape of the settings. `hub.toml` documents every field and gives its default."""

import socket
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from rota.roles import Role, parse_roles
from rota.secret import Secret

DEFAULT_ADDRESS = "127.0.0.1:8420"


@dataclass(frozen=True, kw_only=True)
class Server:
    """What this process is and where it listens."""

    roles: tuple[str, ...]
    address: str
    data: Path
    name: str
    primary: bool
    trusted_proxies: tuple[str, ...]
    metrics_token: Secret
    log_level: str


@dataclass(frozen=True, kw_only=True)
class DatabaseSettings:
    """The database that coordinates."""

    url: str
    direct_url: str
    schema: str
    password: Secret
    pool_size: int


@dataclass(frozen=True, kw_only=True)
class Maintenance:
    """The nightly upkeep."""

    schedule: str
    keep_days: int


@dataclass(frozen=True, kw_only=True)
class Backups:
    """Scheduled backups."""

    destination: str
    schedule: str
    keep: int


@dataclass(frozen=True, kw_only=True)
class TlogSettings:
    """The transparency log."""

    directory: str
    origin: str
    checkpoint_key: Secret
    quorum: str


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one caller may ask of one process."""

    caller: int
    stranger: int
    sign_in: int


@dataclass(frozen=True, kw_only=True)
class WebhookSettings:
    """Webhooks."""

    key: Secret
    allow: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class MailSettings:
    """The operator's mail server."""

    host: str
    port: int
    tls: str
    username: str
    password: Secret
    sender: str
    operators: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ServersSettings:
    """Servers that run apps, and the agents on them."""

    key: Secret
    hub: str
    address: str
    report_every: int
    key_overlap: int
    local: bool


@dataclass(frozen=True, kw_only=True)
class PlacementSettings:
    """Where instances may run."""

    database_latency_ms: int


@dataclass(frozen=True, kw_only=True)
class ArtifactsSettings:
    """What builds made, and how long it is kept."""

    directory: str
    mirrors: tuple[str, ...]
    keep_releases: int


@dataclass(frozen=True, kw_only=True)
class BuildsSettings:
    """Builds on the primary."""

    time_limit: int
    memory_mb: int
    socket: str


@dataclass(frozen=True, kw_only=True)
class ConfigurationSettings:
    """Apps' configuration at rest."""

    key: Secret


@dataclass(frozen=True, kw_only=True)
class RoutingSettings:
    """How requests reach apps."""

    proxy: str
    domain: str
    directory: str
    socket: str
    tls: str
    gate_key: Secret
    acme_directory: str
    acme_contact: str


@dataclass(frozen=True, kw_only=True)
class DeploysSettings:
    """Deploys."""

    settle: int


@dataclass(frozen=True, kw_only=True)
class LogsSettings:
    """Apps' output on the primary."""

    directory: str
    keep_mb: int


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every setting in force. Sections are attributes, keys are theirs."""

    server: Server
    database: DatabaseSettings
    maintenance: Maintenance
    backups: Backups
    tlog: TlogSettings
    limits: Limits
    webhooks: WebhookSettings
    mail: MailSettings
    servers: ServersSettings
    placement: PlacementSettings
    artifacts: ArtifactsSettings
    builds: BuildsSettings
    configuration: ConfigurationSettings
    routing: RoutingSettings
    logs: LogsSettings
    deploys: DeploysSettings

    @property
    def sqlite(self) -> bool:
        """Whether this hub is the single-node edition."""
        return self.database.url.startswith("sqlite:")

    @property
    def roles(self) -> frozenset[Role]:
        """The roles of this process."""
        return parse_roles(self.server.roles)

    @property
    def address(self) -> str:
        """HOST:PORT to listen on, or nothing for a worker that serves nothing."""
        if self.server.address:
            return self.server.address
        return DEFAULT_ADDRESS if Role.WEB in self.roles else ""

    @property
    def name(self) -> str:
        """The name of this process's host."""
        return self.server.name or socket.gethostname()

    @property
    def sqlite_path(self) -> Path:
        """The SQLite database's file."""
        path = self.database.url.removeprefix("sqlite:")
        return Path(path) if path else self.server.data / "rota.db"

    @property
    def keys_directory(self) -> Path:
        """Where this hub's own key files lie."""
        return self.server.data / "keys"

    @property
    def tlog_directory(self) -> Path:
        """Where the transparency log lies."""
        return Path(self.tlog.directory) if self.tlog.directory else self.server.data / "tlog"

    @property
    def artifacts_directory(self) -> Path:
        """Where artifacts lie."""
        return Path(self.artifacts.directory) if self.artifacts.directory else self.server.data / "artifacts"

    @property
    def logs_directory(self) -> Path:
        """Where apps' output lies."""
        return Path(self.logs.directory) if self.logs.directory else self.server.data / "logs"

    @property
    def routing_directory(self) -> Path:
        """Where the proxy's map, certificates and last good configuration lie."""
        return Path(self.routing.directory) if self.routing.directory else self.server.data / "routing"

    @property
    def backup_directory(self) -> Path:
        """Where backups are published."""
        return Path(self.backups.destination) if self.backups.destination else self.server.data / "backups"


SECTIONS: dict[str, type] = {
    "server": Server,
    "database": DatabaseSettings,
    "maintenance": Maintenance,
    "backups": Backups,
    "tlog": TlogSettings,
    "limits": Limits,
    "webhooks": WebhookSettings,
    "mail": MailSettings,
    "servers": ServersSettings,
    "placement": PlacementSettings,
    "artifacts": ArtifactsSettings,
    "builds": BuildsSettings,
    "configuration": ConfigurationSettings,
    "routing": RoutingSettings,
    "logs": LogsSettings,
    "deploys": DeploysSettings,
}


def key_types() -> dict[str, dict[str, Any]]:
    """Return section → key → type, read from the dataclasses."""
    return {
        section: {field.name: get_type_hints(cls)[field.name] for field in fields(cls)}
        for section, cls in SECTIONS.items()
    }
