"""What an app's process finds in its environment."""

from collections.abc import Mapping

from rota.agent.memory import Placement

BASE = {"PATH": b"/usr/local/bin:/usr/bin:/bin", "HOME": b"/tmp", "LANG": b"C.UTF-8"}
LONGEST = 512 * 1024  # bytes of the whole


def environment(placement: Placement, configuration: Mapping[str, bytes], host: str) -> dict[str, bytes]:
    """Return all variables: the build's win over the base, the configuration's over both, ours over all."""
    return {
        **BASE,
        **{name: value.encode() for name, value in placement.environment.items()},
        **configuration,
        "HOST": host.encode(),
        "PORT": str(placement.port).encode(),
        "ROTA_APP": placement.instance.partition(".")[0].encode(),
        "ROTA_INSTANCE": placement.instance.encode(),
        "ROTA_RELEASE": str(placement.release).encode(),
    }


def size(variables: Mapping[str, bytes], command: str) -> int:
    """Return the bytes that the file has from which a process is launched."""
    return (
        len(command.encode())
        + 1
        + sum(len(name.encode()) + len(value) + 2 for name, value in variables.items())
    )
