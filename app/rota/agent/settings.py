"""How an agent is set up: one JSON file, which the kit writes."""

from ipaddress import ip_address
from pathlib import Path
from typing import Literal

import msgspec

from rota.errors import ConfigurationError
from rota.wire.statements import ServerName

PORT = 8427
DATA = "/var/lib/rota-agent"


class AgentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`address` is the server's private one, on which alone the agent listens."""

    name: ServerName
    address: str
    port: int = PORT
    data: str = DATA
    units: Literal["systemd", "children"] = "systemd"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def directory(self) -> Path:
        """Where the agent keeps what it must not forget."""
        return Path(self.data)


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator brings from the hub, so that both know whom they meet."""

    name: ServerName
    token: str
    hub: str  # its name as audience
    url: str
    hub_keys: list[str]
    log_key: str = ""


def read_settings(path: Path) -> AgentSettings:
    """Return the settings of a file. Raises ConfigurationError with what to do."""
    try:
        settings = msgspec.json.decode(path.read_bytes(), type=AgentSettings)
        ip_address(settings.address)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}: the kit's role server writes it") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConfigurationError(f"{path}: {error}: mend it, or apply the kit's role server") from error
    return settings


def read_invitation(data: bytes) -> Invitation:
    """Return what `rota server enrol NAME` printed. Raises ConfigurationError."""
    try:
        return msgspec.json.decode(data, type=Invitation)
    except msgspec.MsgspecError as error:
        raise ConfigurationError(
            f"this is no invitation: {error}: give what `rota server enrol NAME --json` prints"
        ) from error
