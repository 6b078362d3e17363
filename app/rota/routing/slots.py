"""Which prepared server of which prepared backend sends to which target. Pure.

The proxy's configuration has a pool of backends, `app_1` and on for apps that
are asked over HTTP whether they are well, `tcp_1` and on for those that are
only connected to. Each has servers without an address: `s1` and on, and `b1`
and on, which are used where no other answers. An app keeps its backend.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rota.routing.table import AppRoutes

HTTP, TCP = "app_", "tcp_"
STANDBY = "b"
NOWHERE = "127.0.0.1", 1  # where a server leads that nobody uses


@dataclass(frozen=True)
class Slot:
    """One prepared server. One that is not `ready` takes nothing. `place` is its number in the state file."""

    backend: str
    name: str
    address: str = NOWHERE[0]
    port: int = NOWHERE[1]
    ready: bool = False
    place: tuple[int, int] = (0, 0)

    @property
    def target(self) -> tuple[str, int, bool]:
        """Where it leads, and whether only where no other answers."""
        return self.address, self.port, self.name.startswith(STANDBY)


@dataclass(frozen=True)
class Plan:
    """What brings the proxy to what is wanted.

    `slots` are all as they should be; `into` those that begin to take
    requests, `out` those that stop, which is done last. `apps` are the backends
    in use, each with its app. `refused` apps stay as they were, with the reason.
    """

    slots: tuple[Slot, ...]
    into: tuple[Slot, ...]
    out: tuple[Slot, ...]
    apps: Mapping[str, str]
    refused: Mapping[str, str] = field(default_factory=dict)


class _NoRoomError(Exception):
    """An app does not fit; the message says why."""


def plan(slots: Sequence[Slot], known: Mapping[str, str], wanted: Sequence[AppRoutes]) -> Plan:
    """Decide, from the slots as they are and the app of each backend that has one."""
    backends: dict[str, list[Slot]] = {}
    for slot in slots:
        backends.setdefault(slot.backend, []).append(slot)
    held = {app: backend for backend, app in known.items() if backend in backends}
    taken = {backend for backend, app in known.items() if any(each.app == app for each in wanted)}
    taken |= {backend for backend, own in backends.items() if any(slot.ready for slot in own)}
    apps: dict[str, str] = {}
    into: list[Slot] = []
    stays: set[tuple[str, str]] = set()
    refused: dict[str, str] = {}
    for routes in wanted:
        try:
            backend = _backend(routes, held.get(routes.app), backends, taken)
            kept, new = _fitted(routes, backends[backend])
        except _NoRoomError as error:
            refused[routes.app] = str(error)
            if routes.app in held:
                apps[held[routes.app]] = routes.app
                stays |= {(slot.backend, slot.name) for slot in backends[held[routes.app]] if slot.ready}
            continue
        taken.add(backend)
        apps[backend] = routes.app
        into += new
        stays |= {(slot.backend, slot.name) for slot in (*kept, *new)}
    out = [slot for slot in slots if slot.ready and (slot.backend, slot.name) not in stays]
    changed = {(slot.backend, slot.name): slot for slot in into}
    changed |= {(slot.backend, slot.name): replace(slot, ready=False) for slot in out}
    after = tuple(changed.get((slot.backend, slot.name), slot) for slot in slots)
    return Plan(after, tuple(into), tuple(out), dict(sorted(apps.items())), refused)


def _backend(
    routes: AppRoutes, held: str | None, backends: Mapping[str, list[Slot]], taken: Iterable[str]
) -> str:
    kind = HTTP if routes.health_path else TCP
    if held is not None and held.startswith(kind):
        return held
    free = [name for name in backends if name.startswith(kind) and name not in taken]
    if not free:
        variable = "haproxy_apps" if routes.health_path else "haproxy_tcp_apps"
        raise _NoRoomError(
            f"the proxy has no backend left for {routes.app}: raise {variable} "
            "in the inventory, and run site.yml"
        )
    return min(free, key=_number)


def _fitted(routes: AppRoutes, own: list[Slot]) -> tuple[list[Slot], list[Slot]]:
    """Return the slots of an app that stay, and those that begin."""
    wanted = {}
    for target in routes.targets:
        try:
            address = str(ipaddress.ip_address(target.address))
        except ValueError as error:
            raise _NoRoomError(f"{target.copy}: {error}") from error
        if not 0 < target.port < 2**16:
            raise _NoRoomError(f"{target.copy}: {target.port} is no port")
        wanted[address, target.port, target.standby] = target
    kept: dict[tuple[str, int, bool], Slot] = {}
    for slot in own:
        if slot.ready and slot.target in wanted:
            kept.setdefault(slot.target, slot)
    free = {
        standby: [slot for slot in own if not slot.ready and slot.target[2] is standby]
        for standby in (True, False)
    }
    new = []
    for key in wanted:
        if key in kept:
            continue
        address, port, standby = key
        if not free[standby]:
            count = sum(1 for each in own if each.target[2] is standby)
            variable = "haproxy_app_standbys" if standby else "haproxy_app_slots"
            raise _NoRoomError(
                f"{routes.app} needs more than the {count} servers that the proxy has prepared for it: "
                f"raise {variable} in the inventory, and run site.yml"
            )
        new.append(replace(free[standby].pop(0), address=address, port=port, ready=True))
    return list(kept.values()), new


def _number(backend: str) -> int:
    number = backend.rpartition("_")[2]
    return int(number) if number.isdecimal() else 0
