"""Completing an enrolment: the agent's half. It blocks."""

import platform
import secrets
from pathlib import Path

import msgspec
import structlog

from rota import __version__
from rota.agent.caller import UnreachedError, call
from rota.agent.memory import AgentMemory, Link
from rota.agent.settings import AgentSettings, Invitation
from rota.errors import ConfigurationError
from rota.tlog.keys import COSIGNATURE
from rota.wire import channel
from rota.wire.answer import Answer
from rota.wire.channel import Outgoing
from rota.wire.statements import Capabilities, Enrol, Enrolled

NO_SESSION = "0" * 32  # an enrolment stands before every session
OK, UNAVAILABLE = 200, 500

log = structlog.get_logger("rota.agent")


class NotEnrolledError(ConfigurationError):
    """The hub refused, or nobody has invited this server; the message says what to do."""


def enrol(memory: AgentMemory, settings: AgentSettings, invitation: Invitation) -> Link:
    """Enrol at the hub, and keep how the two stand. Raises NotEnrolledError, UnreachedError."""
    if invitation.name != settings.name:
        raise NotEnrolledError(
            f"the invitation is for {invitation.name}, and this server is {settings.name}: bring its own"
        )
    session = secrets.token_hex(16)
    body = Enrol(
        name=settings.name,
        token=invitation.token,
        public_key=memory.key.public,
        wireguard_key=_wireguard_key(),
        witness_key=str(memory.witness_key.note_signer(settings.name, COSIGNATURE).verifier),
        session=session,
        distribution=distribution(),
        capabilities=capabilities(),
        agent_version=__version__,
    )
    envelope = channel.write(Outgoing(settings.name, invitation.hub, NO_SESSION, 1), body, memory.key)
    status, data = call(invitation.url, "POST", "/agents/enrol", envelope)
    if status >= UNAVAILABLE:
        raise UnreachedError(f"{invitation.url}: the hub answered {status}")
    if status != OK:
        raise NotEnrolledError(f"the hub refused to enrol {settings.name}: {_reason(data)}")
    try:
        enrolled = msgspec.json.decode(data, type=Enrolled)
    except msgspec.MsgspecError as error:
        raise UnreachedError(f"{invitation.url} answered nothing that a hub says: {error}") from error
    if enrolled.hub != invitation.hub or not set(enrolled.hub_keys) & set(invitation.hub_keys):
        raise NotEnrolledError(
            f"{invitation.url} is not the hub that invited this server: nothing was taken from it"
        )
    if invitation.log_key and enrolled.log_key != invitation.log_key:
        raise NotEnrolledError("the hub names another transparency log than the invitation: begin anew")
    link = Link(
        hub=enrolled.hub,
        url=invitation.url,
        hub_keys=enrolled.hub_keys,
        log_key=enrolled.log_key,
        session_in=session,
        session_out=enrolled.session,
        first_port=enrolled.first_port,
        ports=enrolled.ports,
        report_every=enrolled.report_every,
        primary_address=enrolled.primary_address,
    )
    memory.set_link(link)
    log.info("enrolled", name=settings.name, hub=link.url)
    return link


def _reason(data: bytes) -> str:
    try:
        return msgspec.json.decode(data, type=Answer).reason
    except msgspec.MsgspecError:
        return data[:200].decode(errors="replace")


def distribution(path: Path = Path("/etc/os-release")) -> str:
    """Return the distribution's release, as in `debian 13`."""
    values = dict(_fields(path, "="))
    found = f"{values.get('ID', 'unknown')} {values.get('VERSION_ID', '')}"
    return found.replace('"', "").strip()[:60]


def capabilities() -> Capabilities:
    """Return what this machine offers."""
    return Capabilities(
        virtualisation=Path("/dev/kvm").exists(),
        memory=memory_bytes("MemTotal"),
        processors=_processors(),
        architecture=platform.machine()[:20],
    )


def memory_bytes(name: str) -> int:
    """Return a figure of /proc/meminfo in bytes, 0 where it is not there."""
    values = dict(_fields(Path("/proc/meminfo"), ":"))
    return int(values.get(name, "0 kB").split()[0]) * 1024


def _processors() -> int:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    return max(1, sum(line.startswith("processor") for line in text.splitlines()))


def _fields(path: Path, between: str) -> list[tuple[str, str]]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [
        (name.strip(), value.strip())
        for name, sign, value in (line.partition(between) for line in lines)
        if sign
    ]


def _wireguard_key() -> str:
    """Return the public key that the kit keeps beside the private one, if the agent may read it."""
    try:
        return Path("/etc/rota/wireguard.pub").read_text(encoding="ascii").strip()[:44]
    except (OSError, UnicodeDecodeError):
        return ""
