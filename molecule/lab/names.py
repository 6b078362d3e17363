"""Names of labs and hosts, and of everything in the kernel that is named after them. Pure.

A name never contains a dot, and a dot joins names, so no lab's names can be taken for another's: ``a``,
``a1`` and ``a-1`` give ``rota-lab.a.h1``, ``rota-lab.a1.h1`` and ``rota-lab.a-1.h1``.
"""

import re

from lab.errors import LabError

PREFIX = "rota-lab"
BRIDGE = "switch"
# A port is named p-HOST, and the kernel gives an interface's name 15 characters.
_LONGEST = {"lab": 32, "host": 13}
_NAME = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")


def _check(kind: str, name: str) -> str:
    longest = _LONGEST[kind]
    if not name:
        raise LabError(f"no {kind} is named: there is no default {kind}, give its name")
    if len(name) > longest or not _NAME.fullmatch(name):
        raise LabError(
            f'"{name}" cannot name a {kind}: use at most {longest} of a-z, 0-9 and "-", '
            f"beginning with a letter and not ending with a dash"
        )
    return name


def lab_name(name: str) -> str:
    """Return the name of a lab, or raise LabError if it is none."""
    return _check("lab", name)


def host_name(name: str) -> str:
    """Return the name of a host, or raise LabError if it is none."""
    return _check("host", name)


def switch_netns(lab: str) -> str:
    """Name the network namespace that holds a lab's switch."""
    return f"{PREFIX}.{lab}"


def host_netns(lab: str, host: str) -> str:
    """Name the network namespace of one host."""
    return f"{PREFIX}.{lab}.{host}"


def is_of_lab(netns: str, lab: str) -> bool:
    """Say whether a network namespace belongs to this lab, and to no other whose name begins alike."""
    return netns == switch_netns(lab) or netns.startswith(f"{switch_netns(lab)}.")


def lab_of(netns: str) -> str | None:
    """Return the lab that a network namespace belongs to, or None for one that is not ours."""
    prefix, _, rest = netns.partition(".")
    return rest.partition(".")[0] or None if prefix == PREFIX else None


def machine(lab: str, host: str) -> str:
    """Name the machine as systemd-nspawn knows it."""
    return f"{lab}.{host}"


def port(host: str) -> str:
    """Name the switch's port that a host is plugged into."""
    return f"p-{host}"


def cgroup(lab: str, host: str = "") -> str:
    """Name the cgroup of a lab or of one host, relative to where the lab's cgroups begin."""
    return f"{PREFIX}.{lab}/{host}" if host else f"{PREFIX}.{lab}"
