"""HAProxy's runtime socket: orders given one after the other, and what it answers read."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from rota.errors import RotaError
from rota.routing.slots import HTTP, TCP, Slot

WITHIN = 5.0  # seconds for one answer
READY = 0  # of the flags of a server's state those that take it out by order
OUT = 0x01 | 0x08  # forced into maintenance, forced to drain

# What the file of states begins with, as HAProxy writes it; a server of the pool has nothing but its address.
STATES = (
    "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight "
    "srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state "
    "srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port "
    "srv_check_addr srv_agent_addr srv_agent_port\n"
)
_FIELDS = 25
_BACKEND, _SERVER, _ADDRESS, _ADMIN, _PORT = 1, 3, 4, 6, 18


class ProxyError(RotaError):
    """The proxy does not answer, or refuses; what it did before it goes on doing."""


class Runtime:
    """One socket. It takes one order on each connection, which is cheap."""

    def __init__(self, path: Path) -> None:
        """Talk to the socket at this path."""
        self._path = path

    async def ask(self, order: str) -> str:
        """Give an order, which may have a payload after its line; return the answer. Raises ProxyError."""
        try:
            async with asyncio.timeout(WITHIN):
                reader, writer = await asyncio.open_unix_connection(self._path)
                try:
                    writer.write(f"{order}\n".encode())
                    answer = await reader.read(-1)
                finally:
                    writer.close()
        except (OSError, TimeoutError) as error:
            reason = str(error) or f"no answer within {WITHIN:.0f} s"
            raise ProxyError(
                f"the proxy does not answer at {self._path}: {reason}: "
                "`systemctl status haproxy` on the primary"
            ) from error
        return answer.decode(errors="replace").strip()

    async def slots(self) -> list[Slot]:
        """Return the servers of the pool."""
        return read_slots(await self.ask("show servers state"))

    async def map(self, path: Path) -> dict[str, str]:
        """Return what a map holds at this moment."""
        return read_map(await self.ask(f"show map {path}"))

    async def swap(self, path: Path, entries: Mapping[str, str]) -> None:
        """Replace what a map holds, all at once. Raises ProxyError."""
        answer = await self.ask(f"prepare map {path}")
        _, found, version = answer.partition("New version created: ")
        if not found:
            raise ProxyError(f"the proxy does not take the map {path.name}: {answer}")
        if entries:
            # With a payload, which has neither ; nor quotes to look out for; it ends with an empty line.
            lines = "".join(f"{key} {value}\n" for key, value in entries.items())
            refused = await self.ask(f"add map @{version.strip()} {path} <<\n{lines}")
            if refused:
                raise ProxyError(f"the proxy does not take the map {path.name}: {refused}")
        refused = await self.ask(f"commit map @{version.strip()} {path}")
        if refused:
            raise ProxyError(f"the proxy does not take the map {path.name}: {refused}")


def read_slots(states: str) -> list[Slot]:
    """Read what `show servers state` answers."""
    found = []
    for line in states.splitlines():
        fields = line.split()
        if len(fields) < _FIELDS or not fields[_BACKEND].startswith((HTTP, TCP)):
            continue
        found.append(
            Slot(
                fields[_BACKEND],
                fields[_SERVER],
                fields[_ADDRESS],
                int(fields[_PORT]),
                not int(fields[_ADMIN]) & OUT,
                (int(fields[0]), int(fields[2])),
            )
        )
    return found


def written_states(slots: list[Slot]) -> str:
    """Return the file from which the proxy takes up those that are ready when it starts."""
    lines = [
        f"{slot.place[0]} {slot.backend} {slot.place[1]} {slot.name} {slot.address} "
        f"2 4 1 1 0 1 0 2 6 0 0 0 - {slot.port} - 0 0 - - 0\n"
        for slot in slots
        if slot.ready
    ]
    return STATES + "".join(lines)


def read_map(shown: str) -> dict[str, str]:
    """Read what `show map` answers, or a file of a map."""
    found = {}
    for line in shown.splitlines():
        fields = line.split(" ")
        # The answer has an address before the key.
        if fields and fields[0].startswith("0x"):
            fields = fields[1:]
        if len(fields) >= 2:  # noqa: PLR2004 - a key and a value
            found[fields[0]] = " ".join(fields[1:])
    return found


def written_map(entries: Mapping[str, str]) -> str:
    """Return the file of a map."""
    return "".join(f"{key} {value}\n" for key, value in sorted(entries.items()))
