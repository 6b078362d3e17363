"""A lab's network: a switch in a network namespace, and a cable to each host.

No address, bridge or route of a lab is in the machine's own namespace, and none leads out of the lab.
"""

import ipaddress
import os
from pathlib import Path

from lab import names
from lab.commands import run
from lab.errors import LabError

_NETNS = Path("/run/netns")


def network(switch: str) -> ipaddress.IPv4Interface:
    """Return a switch's address with its network, from ``10.78.0.1/24``; LabError if it is none."""
    try:
        interface = ipaddress.IPv4Interface(switch)
    except ValueError as error:
        raise LabError(f'"{switch}" is no address of a switch: give one as 10.78.0.1/24') from error
    if interface.network.prefixlen > 30:  # noqa: PLR2004 - the longest prefix with room for a host
        raise LabError(
            f'switch "{switch}" leaves no room for hosts: give its prefix length, as in 10.78.0.1/24'
        )
    return interface


def host_address(address: str, switch: ipaddress.IPv4Interface) -> str:
    """Return a host's address with the switch's prefix length; LabError if it is not of that network."""
    try:
        given = ipaddress.IPv4Address(address)
    except ValueError as error:
        raise LabError(f'"{address}" is no address of a host: give one as 10.78.0.11') from error
    net = switch.network
    if given not in net or given in (switch.ip, net.network_address, net.broadcast_address):
        raise LabError(f"no host can have {given} on a switch that is {switch}: choose another in {net}")
    return f"{given}/{net.prefixlen}"


def up(lab: str, switch: ipaddress.IPv4Interface) -> None:
    """Make a lab's switch; one that is there stays, and LabError is raised if it has another address."""
    space = names.switch_netns(lab)
    _add_netns(space)
    if not _has_link(space, names.BRIDGE):
        _ip(space, "link", "add", names.BRIDGE, "type", "bridge", "forward_delay", "0", "stp_state", "0")
    have = address(lab)
    if have not in (None, switch):
        raise LabError(f"the switch of lab {lab} is {have}, not {switch}: take the lab down first")
    if have is None:
        _ip(space, "address", "add", str(switch), "dev", names.BRIDGE)
    _ip(space, "link", "set", names.BRIDGE, "up")


def address(lab: str) -> ipaddress.IPv4Interface | None:
    """Return the address of a lab's switch, or None if it has none yet."""
    space = names.switch_netns(lab)
    if not exists(space):
        raise LabError(f"there is no lab {lab}: make it with `molecule/labctl up {lab} ADDRESS/LENGTH`")
    shown = _ip(space, "-brief", "-4", "address", "show", "dev", names.BRIDGE).split()
    return ipaddress.IPv4Interface(shown[2]) if len(shown) > 2 else None  # noqa: PLR2004 - name, state, address


def connect(lab: str, host: str, address: str) -> None:
    """Make a host's network namespace and lay its cable; what is there stays.

    Args:
        lab: the lab's name.
        host: the host's name.
        address: the host's address with its prefix length.

    """
    space, switch, port = names.host_netns(lab, host), names.switch_netns(lab), names.port(host)
    _add_netns(space)
    if not _has_link(switch, port):
        _ip(space, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", switch)
    _ip(switch, "link", "set", port, "master", names.BRIDGE, "up")
    _ip(space, "address", "replace", address, "dev", "eth0")
    _ip(space, "link", "set", "eth0", "up")


def tap(lab: str, host: str) -> None:
    """Lay the cable of an emulated machine, whose other end its emulator holds; one that is there stays."""
    space, port = names.switch_netns(lab), names.port(host)
    if not _has_link(space, port):
        _ip(space, "tuntap", "add", "dev", port, "mode", "tap")
    _ip(space, "link", "set", port, "master", names.BRIDGE, "up")


def plug(lab: str, host: str, *, plugged: bool) -> None:
    """Put a host's cable into the switch, or pull it out."""
    _ip(names.switch_netns(lab), "link", "set", names.port(host), "up" if plugged else "down")


def exists(netns: str) -> bool:
    """Say whether there is a network namespace of that name."""
    # A run killed inside `ip netns add` leaves the file without the mount that makes it a namespace.
    return os.path.ismount(_NETNS / netns)


def every_netns() -> list[str]:
    """Return the names of the machine's network namespaces, whole or half made."""
    return sorted(path.name for path in _NETNS.iterdir()) if _NETNS.is_dir() else []


def processes(netns: str) -> list[int]:
    """Return the ids of the processes in a network namespace."""
    return [int(pid) for pid in run(["ip", "netns", "pids", netns]).stdout.split()] if exists(netns) else []


def delete(netns: str) -> None:
    """Delete a network namespace, whole or half made."""
    if exists(netns):
        run(["ip", "netns", "delete", netns])
    (_NETNS / netns).unlink(missing_ok=True)


def inside(netns: str, argv: list[str]) -> list[str]:
    """Return the argv that runs another in a network namespace; it sees the machine's files. Pure."""
    # Not `ip netns exec`, which mounts a new /sys and so hides the cgroups.
    return ["nsenter", f"--net={_NETNS / netns}", "--", *argv]


def _add_netns(netns: str) -> None:
    if not exists(netns):
        (_NETNS / netns).unlink(missing_ok=True)
        run(["ip", "netns", "add", netns])
    _ip(netns, "link", "set", "lo", "up")


def _has_link(netns: str, link: str) -> bool:
    return run(["ip", "-netns", netns, "link", "show", "dev", link], check=False).returncode == 0


def _ip(netns: str, *words: str) -> str:
    return run(["ip", "-netns", netns, *words]).stdout
