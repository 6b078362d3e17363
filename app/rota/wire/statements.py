"""What the six messages say: frozen values, strictly decoded.

`rota.wire.envelope` signs them, `rota.wire.channel` judges them. A copy of an
instance is named `shop.web.1@12`: the instance and the release that it runs.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

PROTOCOL = 1

AppName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,22}\Z")]
ProcessType = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,15}\Z")]
ServerName = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")]
InstanceName = Annotated[
    str, Meta(pattern=r"^[a-z][a-z0-9-]{0,22}\.[a-z][a-z0-9_-]{0,15}\.[1-9][0-9]{0,3}\Z")
]
Number = Annotated[int, Meta(ge=1, le=2**53 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Port = Annotated[int, Meta(ge=1024, le=65535)]
Hex32 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]  # BLAKE3 or SHA-256
Key = Annotated[str, Meta(pattern=r"^[A-Za-z0-9+/]{43}=\Z")]  # Ed25519 or X25519, raw, in base64
Line = Annotated[str, Meta(max_length=500)]
Lines = Annotated[str, Meta(max_length=4000)]
Command = Annotated[str, Meta(min_length=1, max_length=4000)]
InstanceState = Literal["placed", "starting", "running", "restarting", "failed", "stopped"]


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A value that holds its fields, all of them known, and nothing else."""


class Capabilities(Strict, frozen=True, kw_only=True):
    """What a server offers. `memory` is in bytes; `architecture` as x86_64 or aarch64."""

    virtualisation: bool
    memory: Count
    processors: Number
    architecture: Annotated[str, Meta(max_length=20)]


class Health(Strict, frozen=True, kw_only=True):
    """How an instance is seen to be well.

    `http` answers 200 to 399 at `path`, `tcp` takes a connection, `process` just
    stays up. `start` is how long it may take to become well, in seconds, and
    `timeout` how long one try may take.
    """

    kind: Literal["http", "tcp", "process"] = "http"
    path: Annotated[str, Meta(pattern=r"^/[!-~]{0,499}\Z")] = "/"
    start: Annotated[int, Meta(ge=1, le=3600)] = 60
    timeout: Annotated[int, Meta(ge=1, le=60)] = 5


class Limits(Strict, frozen=True, kw_only=True):
    """What an instance may use: `memory` in bytes, `processors` in thousandths of one; 0 is no limit."""

    memory: Count = 0
    processors: Count = 0


class Process(Strict, frozen=True, kw_only=True):
    """One process type of a release. Whoever stops it waits `grace` seconds before it is killed."""

    command: Command
    singleton: bool = False
    health: Health = Health()
    limits: Limits = Limits()
    grace: Annotated[int, Meta(ge=1, le=600)] = 10


class Requires(Strict, frozen=True, kw_only=True):
    """What an app asks of the servers that run it."""

    virtualisation: bool = False
    memory: Count = 0
    processors: Count = 0
    storage: bool = False
    database: bool = False
    primary: bool = False


class ReleaseStatement(Strict, frozen=True, kw_only=True):
    """What a release is. Its bytes, `rota.releases.statement.written`, are an entry of the log."""

    app: AppName
    number: Number
    artifact: Hex32
    sha256: Hex32
    size: Count
    processes: dict[ProcessType, Process]
    configuration: Count
    requires: Requires = Requires()
    hook: Annotated[str, Meta(max_length=4000)] = ""  # the release hook's command; none if empty
    environment: dict[str, str] = {}  # what the build says; the configuration wins over it


class Enrol(Strict, frozen=True, kw_only=True, tag="enrol"):
    """A server completes its enrolment; the envelope is signed by the key that it names."""

    name: ServerName
    token: Annotated[str, Meta(max_length=200)]
    public_key: Key
    wireguard_key: Annotated[str, Meta(max_length=44)] = ""
    witness_key: Annotated[str, Meta(max_length=500)] = ""  # the vkey by which its cosignatures are checked
    session: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]  # in which the hub's messages must come
    distribution: Annotated[str, Meta(max_length=60)]
    capabilities: Capabilities
    agent_version: Annotated[str, Meta(max_length=60)]


class Enrolled(Strict, frozen=True, kw_only=True):
    """The hub's answer to `enrol`."""

    hub: Annotated[str, Meta(max_length=100)]  # its name as audience, hub:…
    hub_keys: list[Key]
    session: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]  # in which the server's messages must come
    first_port: Port
    ports: Count
    report_every: Number  # seconds
    log_key: Annotated[str, Meta(max_length=500)]  # the vkey of the transparency log
    primary_address: str  # which alone may reach instances


class Rotate(Strict, frozen=True, kw_only=True, tag="rotate"):
    """The sender's new key, signed by the old one; with `ends`, the new key says that the old one ends."""

    public_key: Key
    ends: bool = False


class Place(Strict, frozen=True, kw_only=True, tag="place"):
    """An instance belongs on this server, which fetches what it needs.

    `statement` is the release statement as it stands in the log, and `proof` its
    tlog-proof. With a `run` it is a one-shot execution of `command` instead.
    """

    instance: InstanceName
    release: Number
    process_type: ProcessType
    port: Port
    statement: str
    proof: str
    run: Count = 0
    command: Annotated[str, Meta(max_length=4000)] = ""


class Start(Strict, frozen=True, kw_only=True, tag="start"):
    """A placed instance starts with its app's configuration: names, and values in base64."""

    instance: InstanceName
    release: Number
    configuration: dict[str, str]
    run: Count = 0


class Stop(Strict, frozen=True, kw_only=True, tag="stop"):
    """An instance stops, and its configuration is deleted."""

    instance: InstanceName
    release: Number
    run: Count = 0


class InstanceReport(Strict, frozen=True, kw_only=True):
    """One copy of an instance as its server sees it. `reason` says why it is not well."""

    instance: InstanceName
    release: Number
    state: InstanceState
    healthy: bool
    address: str
    port: Port
    restarts: Count
    reason: Line = ""
    last_lines: Lines = ""


class RunReport(Strict, frozen=True, kw_only=True):
    """A one-shot execution as its server sees it; `exit_code` once it has ended, by signal N as 128 + N."""

    run: Number
    state: Literal["placed", "running", "ended", "failed"]
    exit_code: Annotated[int, Meta(ge=0, le=255)] | None = None
    reason: Line = ""


class Load(Strict, frozen=True, kw_only=True):
    """How busy a server is: the load average of a minute in thousandths, bytes free and all."""

    average: Count
    memory_free: Count
    memory: Count
    disk_free: Count
    disk: Count


class Report(Strict, frozen=True, kw_only=True, tag="report"):
    """What a server runs and how it is; also its sign of life. Times are in microseconds."""

    instances: list[InstanceReport]
    runs: list[RunReport] = []
    load: Load
    clock_offset: Annotated[int, Meta(ge=-(2**53), le=2**53)] | None = None
    round_trip: Count | None = None
    agent_version: Annotated[str, Meta(max_length=60)]
    log_size: Count = 0  # of the copy of the transparency log that it has verified
    unheard_for: Count = 0  # seconds since it last heard from the hub, once that is 600 or more
    refused: list[Line] = []  # orders that it refused since the last report, and why


Message = Enrol | Rotate | Place | Start | Stop | Report
KINDS: tuple[str, ...] = ("enrol", "rotate", "place", "start", "stop", "report")


def copy_name(instance: str, release: int) -> str:
    """Return the name of a copy: shop.web.1@12."""
    return f"{instance}@{release}"
