"""HAProxy: prepared servers and a few maps, changed at run time and in files alike.

Files come first, so that a proxy that starts anew begins where this one stood;
then the orders at run time; then what the proxy says of itself is read and
compared. The proxy's own configuration is the kit's and root's: what is written
here is data, which makes it do nothing but send requests elsewhere.
"""

import asyncio
import ipaddress
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from rota.coordination.epoch import Epoch, Fence
from rota.drivers.files import replace_file
from rota.errors import FencedError, RotaError
from rota.routing.pems import Pems
from rota.routing.proxy import Wanted
from rota.routing.runtime import Runtime, read_map, written_map, written_states
from rota.routing.slots import Plan, Slot, plan
from rota.routing.table import AppRoutes

APPS, HOSTS, HEALTH, KEYS, REVOKED = (
    f"{name}.map" for name in ("apps", "hosts", "health", "keys", "revoked")
)
STATES = "servers.state"
EPOCH = "epoch"
CERTIFICATES = "certificates"

log = structlog.get_logger("rota.routing")


class HaproxyProxy:
    """Speaks to one HAProxy on this host."""

    def __init__(self, directory: Path, socket: Path) -> None:
        """Keep files where the proxy's configuration has them, and give orders over this socket."""
        self._directory = directory
        self._runtime = Runtime(socket)
        self._pems = Pems(directory / CERTIFICATES, self._runtime)

    async def apply(self, wanted: Wanted, fence: Fence) -> dict[str, str]:
        """Bring the proxy to this and compare. Raises ProxyError, FencedError and RotaError."""
        await asyncio.to_thread(self._admit, fence)
        slots = await self._runtime.slots()
        found = plan(slots, await asyncio.to_thread(self._known), wanted.apps)
        maps = await asyncio.to_thread(self._write, found, wanted)
        # Before the names that they are for.
        await self._pems.apply(wanted.certificates)
        for slot in found.into:
            await self._begin(slot)
        for name, entries in maps.items():
            path = self._directory / name
            if await self._runtime.map(path) != entries:
                await self._runtime.swap(path, entries)
        for slot in found.out:
            await self._runtime.ask(f"set server {slot.backend}/{slot.name} state maint")
        if found.into or found.out:
            log.info("proxy switched", into=len(found.into), out=len(found.out), apps=len(found.apps))
        return await self._compared(found, maps)

    async def close(self) -> None:
        """Do nothing: no connection stays open."""

    async def _begin(self, slot: Slot) -> None:
        server = f"{slot.backend}/{slot.name}"
        await self._runtime.ask(f"set server {server} addr {slot.address} port {slot.port}")
        await self._runtime.ask(f"set server {server} state ready")

    async def _compared(self, found: Plan, maps: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """Return what is not as it should be, by app."""
        now = {(slot.backend, slot.name): slot for slot in await self._runtime.slots()}
        failed = dict(found.refused)
        for slot in found.slots:
            seen = now.get((slot.backend, slot.name))
            same = seen is not None and seen.ready == slot.ready and (not slot.ready or _alike(seen, slot))
            app = found.apps.get(slot.backend)
            if not same and app is not None:
                failed.setdefault(app, f"the proxy did not take the server {slot.backend}/{slot.name}")
        for name, entries in maps.items():
            if await self._runtime.map(self._directory / name) != entries:
                raise RotaError(
                    f"the proxy's map {name} is not what was committed: does somebody else change it?"
                )
        return failed

    def _known(self) -> dict[str, str]:
        return self._map(APPS)

    def _map(self, name: str) -> dict[str, str]:
        try:
            return read_map((self._directory / name).read_text(encoding="ascii"))
        except FileNotFoundError:
            return {}

    def _admit(self, fence: Fence) -> None:
        """Refuse who leads no longer. Raises FencedError."""
        path = self._directory / EPOCH
        text = path.read_text(encoding="ascii").split() if path.exists() else []
        highest = Epoch(int(text[0]), int(text[1])) if len(text) == 2 else Epoch(0, 0)  # noqa: PLR2004
        if fence.pair < highest:
            raise FencedError(f"{fence.task}: another process has changed the proxy since")
        if fence.pair != highest:
            replace_file(path, f"{fence.generation} {fence.epoch}\n")

    def _write(self, found: Plan, wanted: Wanted) -> dict[str, dict[str, str]]:
        """Write every file that is new; return what each map should hold, in the order of their swaps."""
        known = {name: self._map(name) for name in (HOSTS, HEALTH)}
        maps = {
            HEALTH: _health(found, wanted.apps, known[HEALTH]),
            APPS: dict(found.apps),
            KEYS: dict(zip(("current", "previous"), wanted.keys, strict=False)),
            REVOKED: dict.fromkeys(sorted(wanted.revoked), "1"),
            HOSTS: _hosts(found, wanted.apps, known[HOSTS]),
        }
        replace_file(self._directory / STATES, written_states(list(found.slots)))
        for name, entries in maps.items():
            replace_file(self._directory / name, written_map(entries))
        return maps


def _alike(seen: Slot, slot: Slot) -> bool:
    return ipaddress.ip_address(seen.address) == ipaddress.ip_address(slot.address) and seen.port == slot.port


def _hosts(found: Plan, wanted: Sequence[AppRoutes], known: Mapping[str, str]) -> dict[str, str]:
    """Return, for each name, its backend and the version of the gate before it, as app_3|7.

    In one map, so that no name ever leads past its gate. What leads where stays
    as it was for a refused app; its gate does not.
    """
    backend_of = {app: backend for backend, app in found.apps.items()}
    hosts: dict[str, str] = {}
    for routes in wanted:
        gate = f"|{routes.gate}" if routes.gate else ""
        backend = backend_of.get(routes.app)
        if routes.app not in found.refused:
            hosts |= dict.fromkeys(routes.names, f"{backend}{gate}")
        elif backend is not None:
            own = [name for name, leads in known.items() if leads.partition("|")[0] == backend]
            hosts |= dict.fromkeys(own, f"{backend}{gate}")
    return hosts


def _health(found: Plan, wanted: Sequence[AppRoutes], known: Mapping[str, str]) -> dict[str, str]:
    paths = {routes.app: routes.health_path for routes in wanted if routes.app not in found.refused}
    return {
        backend: path
        for backend, app in found.apps.items()
        if (path := paths.get(app, known.get(backend, "")))
    }
