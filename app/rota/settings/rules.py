"""What must hold between settings: pure checks that name the key and the remedy."""

import ipaddress
import re
from collections.abc import Iterator
from ipaddress import ip_network

from rota.roles import parse_roles
from rota.settings.model import Settings

LOG_LEVELS = ("debug", "info", "warning", "error")
TLS = ("starttls", "tls", "none")
PROXIES = ("none", "haproxy")
MAX_PORT = 0xFFFF
MAX_POOL = 100
MAX_DAYS = 36_500

_MAIL = re.compile(r"[A-Za-z0-9._%+'/=~-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?", re.ASCII)
_KEY = re.compile(r"[A-Za-z0-9_-]{43}=?", re.ASCII)  # 32 bytes in base64url
_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_DOMAIN = re.compile(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
# PostgreSQL folds unquoted names and cuts them at 63 bytes; a name within these
# bounds means the same quoted and unquoted.
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^:\s]+):(?P<port>\d{1,5})")


def problems(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield (key, what is wrong and what to do) for every rule that is broken."""
    yield from _server(settings)
    yield from (_sqlite if settings.sqlite else _postgresql)(settings)
    yield from _schedules(settings)
    yield from _tlog(settings)
    for key in ("caller", "stranger", "sign_in"):
        if getattr(settings.limits, key) < 0:
            yield f"limits.{key}", f"{getattr(settings.limits, key)} is below 0: write 0 for no limit"
    yield from _builds(settings)
    yield from _webhooks(settings)
    yield from _mail(settings)
    yield from _routing(settings)


def _tlog(settings: Settings) -> Iterator[tuple[str, str]]:
    for key, path in (("directory", settings.tlog.directory), ("quorum", settings.tlog.quorum)):
        if path and not path.startswith("/") and not (key == "quorum" and path == "none"):
            yield f"tlog.{key}", f'"{path}" is no absolute path'
    origin = settings.tlog.origin
    if origin and not _good_origin(origin):
        yield "tlog.origin", f'"{origin}" cannot name a log: no spaces, no +, 255 bytes at most'


def _good_origin(origin: str) -> bool:
    # Only who names the log pays for loading this.
    from rota.tlog.keys import good_name

    return good_name(origin)


def _builds(settings: Settings) -> Iterator[tuple[str, str]]:
    builds, artifacts = settings.builds, settings.artifacts
    if builds.time_limit < 1:
        yield "builds.time_limit", f"{builds.time_limit} is below 1: write seconds"
    if builds.memory_mb < 0:
        yield "builds.memory_mb", f"{builds.memory_mb} is below 0: write 0 for no limit"
    for key, path in (("builds.socket", builds.socket), ("artifacts.directory", artifacts.directory)):
        if path and not path.startswith("/"):
            yield key, f'"{path}" is no absolute path'
    for mirror in artifacts.mirrors:
        if not mirror.startswith(("/", "https://", "http://")):
            yield "artifacts.mirrors", f'"{mirror}" is no absolute path, and no http:// or https:// address'
    if artifacts.keep_releases < 1:
        yield "artifacts.keep_releases", f"{artifacts.keep_releases} would keep no release: set 1 or more"
    keys = settings.configuration.key.reveal()
    if keys and not all(_KEY.fullmatch(key.strip()) for key in keys.split(",")):
        yield "configuration.key", "no key that `rota config key` makes; several have commas between"


def _webhooks(settings: Settings) -> Iterator[tuple[str, str]]:
    for network in settings.webhooks.allow:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            yield "webhooks.allow", f'"{network}" is no network, as 10.1.0.0/16 or fd00:1::/32'
    keys = settings.webhooks.key.reveal()
    if keys and not all(_KEY.fullmatch(key.strip()) for key in keys.split(",")):
        yield "webhooks.key", "no key that `rota webhook key` makes; several have commas between"


def _routing(settings: Settings) -> Iterator[tuple[str, str]]:
    routing = settings.routing
    if routing.proxy not in PROXIES:
        yield "routing.proxy", f'"{routing.proxy}" is none of {", ".join(PROXIES)}'
    if routing.domain and not _DOMAIN.fullmatch(routing.domain):
        yield "routing.domain", f'"{routing.domain}" is no domain in lower case, as apps.example.org'
    for key, path in (("directory", routing.directory), ("socket", routing.socket)):
        if path and not path.startswith("/"):
            yield f"routing.{key}", f'"{path}" is no absolute path'
    if not _good_address(routing.tls):
        yield "routing.tls", f'"{routing.tls}" is not HOST:PORT, as 127.0.0.1:443 or [::1]:443'
    keys = routing.gate_key.reveal()
    if keys and not all(_KEY.fullmatch(key.strip()) for key in keys.split(",")):
        yield "routing.gate_key", "not 43 signs of base64url; two have a comma between"
    if routing.acme_directory and not routing.acme_directory.startswith("https://"):
        yield "routing.acme_directory", f'"{routing.acme_directory}" does not begin with https://'
    if routing.acme_contact and not _MAIL.fullmatch(routing.acme_contact):
        yield "routing.acme_contact", f'"{routing.acme_contact}" is no address for mail, as ops@example.org'


def _mail(settings: Settings) -> Iterator[tuple[str, str]]:
    mail = settings.mail
    if mail.tls not in TLS:
        yield "mail.tls", f'"{mail.tls}" is none of {", ".join(TLS)}'
    if not 0 < mail.port <= MAX_PORT:
        yield "mail.port", f"{mail.port} is not between 1 and {MAX_PORT}"
    for key, address in (("sender", mail.sender), *(("operators", each) for each in mail.operators)):
        if (address or mail.host) and not _MAIL.fullmatch(address):
            yield f"mail.{key}", f'"{address}" is no address for mail, as rota@example.org'
    if mail.password and mail.tls == "none":
        yield "mail.tls", "none would send the password in the clear: use starttls or tls"


def _server(settings: Settings) -> Iterator[tuple[str, str]]:
    server = settings.server
    try:
        parse_roles(server.roles)
    except ValueError as error:
        yield "server.roles", str(error)
    if server.address and not _good_address(server.address):
        yield "server.address", f'"{server.address}" is not HOST:PORT, as 127.0.0.1:8420 or [::1]:8420'
    for network in server.trusted_proxies:
        try:
            ip_network(network)
        except ValueError as error:
            yield (
                "server.trusted_proxies",
                f"{error}: write an address or a network, as 10.0.0.1 or 10.0.0.0/24",
            )
    if server.log_level not in LOG_LEVELS:
        yield "server.log_level", f'"{server.log_level}" is none of {", ".join(LOG_LEVELS)}'


def _good_address(address: str) -> bool:
    match = _ADDRESS.fullmatch(address)
    return match is not None and 0 < int(match["port"]) <= MAX_PORT


def _sqlite(settings: Settings) -> Iterator[tuple[str, str]]:
    database = settings.database
    path = database.url.removeprefix("sqlite:")
    if path and (not path.startswith("/") or path.startswith("//")):
        yield (
            "database.url",
            f'"{database.url}" must be "sqlite:" (rota.db in the data directory) or "sqlite:/PATH"',
        )
    for key, value in (
        ("schema", database.schema),
        ("direct_url", database.direct_url),
        ("password", database.password),
    ):
        if value:
            yield (
                f"database.{key}",
                "is for PostgreSQL and database.url says SQLite: take it away, or set the url",
            )


def _postgresql(settings: Settings) -> Iterator[tuple[str, str]]:
    database = settings.database
    for key, url in (("url", database.url), ("direct_url", database.direct_url)):
        problem = _bad_url(url) if url or key == "url" else None
        if problem is not None:
            yield f"database.{key}", problem
    if not database.schema:
        yield (
            "database.schema",
            'PostgreSQL needs a schema of its own for this hub: set it, for example to "rota"',
        )
    elif not _SCHEMA.fullmatch(database.schema) or database.schema.startswith("pg_"):
        yield (
            "database.schema",
            f'"{database.schema}" must be lower-case letters, digits and _, and not begin with pg_',
        )
    if not 1 <= database.pool_size <= MAX_POOL:
        yield "database.pool_size", f"{database.pool_size} is not between 1 and {MAX_POOL}"


def _bad_url(url: str) -> str | None:
    # Only a hub on PostgreSQL pays for loading this.
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    if not url.startswith(("postgresql://", "postgres://")):
        return 'must begin with "sqlite:" or "postgresql://"'
    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError:  # its message may repeat a part of the password
        return (
            "is not an address that PostgreSQL understands: write postgresql://USER@HOST:PORT/NAME, "
            "a % in it as %25, and after a ? only parameters of libpq"
        )
    return None if parts.get("dbname") else "names no database: write postgresql://USER@HOST:PORT/NAME"


def _schedules(settings: Settings) -> Iterator[tuple[str, str]]:
    for key, when in (
        ("maintenance.schedule", settings.maintenance.schedule),
        ("backups.schedule", settings.backups.schedule),
    ):
        if when and not _CLOCK.fullmatch(when):
            yield key, f'"{when}" is not HH:MM in UTC, as 03:15, nor empty for never'
    if not 1 <= settings.maintenance.keep_days <= MAX_DAYS:
        yield (
            "maintenance.keep_days",
            f"{settings.maintenance.keep_days} is not between 1 and {MAX_DAYS} days",
        )
    if settings.backups.keep < 1:
        yield "backups.keep", f"{settings.backups.keep} would keep no backup: set 1 or more"
