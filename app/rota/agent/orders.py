"""What a server does on each order. Every one may come twice."""

import asyncio
import base64
import binascii
import time

import msgspec
import structlog

from rota.agent.environment import LONGEST, environment, size
from rota.agent.launch import CommandError, words
from rota.agent.memory import AgentMemory, Link, Placement, copy_of
from rota.agent.shelf import Shelf
from rota.agent.trust import RefusedError, Trust
from rota.agent.units import Unit, Units, UnitsError
from rota.wire.envelope import check_public_key
from rota.wire.statements import Message, Place, Process, ReleaseStatement, Rotate, Start, Stop

log = structlog.get_logger("rota.agent")


class Orders:
    """Obeys, or raises RefusedError; UnreachedError where an order is worth sending again."""

    def __init__(self, memory: AgentMemory, units: Units, shelf: Shelf, host: str) -> None:
        """Run instances as these units; each is told to listen at `host`."""
        self._memory = memory
        self._units = units
        self._shelf = shelf
        self._host = host

    async def obey(self, order: Message, link: Link, trust: Trust) -> Link:
        """Do what is ordered; return how this server then stands to its hub."""
        try:
            match order:
                case Place():
                    await self._place(order, link, trust)
                case Start():
                    await self._start(order)
                case Stop():
                    await self._stop(order)
                case Rotate():
                    return _rotated(order, link)
                case _:
                    raise RefusedError("a hub does not say this")
        except UnitsError as error:
            raise RefusedError(str(error)) from error
        return link

    async def _place(self, order: Place, link: Link, trust: Trust) -> None:
        copy = copy_of(order.instance, order.release, order.run)
        release = await asyncio.to_thread(trust.release, order, link.url)
        placement = _placement(order, release, link)
        known = self._memory.placements.get(copy)
        if known is not None and _same(known, placement):
            return
        await self._shelf.have(release.artifact, release.sha256, release.size)
        unit = Unit(
            copy=copy,
            sha256=placement.sha256,
            port=placement.port,
            memory=placement.memory,
            processors=placement.processors,
            grace=placement.grace,
        )
        await self._units.place(unit)
        self._memory.put(placement)
        log.info("placed", copy=copy, port=order.port)

    async def _start(self, order: Start) -> None:
        copy = copy_of(order.instance, order.release, order.run)
        placement = self._memory.placements.get(copy)
        if placement is None:
            raise RefusedError(f"{copy} is not placed here")
        if placement.run and placement.started_at is not None:
            return  # a run happens once
        try:
            values = {
                name: base64.b64decode(value, validate=True) for name, value in order.configuration.items()
            }
        except (binascii.Error, ValueError) as error:
            raise RefusedError("a value of the configuration is no base64") from error
        variables = environment(placement, values, self._host)
        if any(b"\0" in value for value in variables.values()) or any("=" in name for name in variables):
            raise RefusedError("a variable cannot hold a NUL byte, nor its name a =")
        if size(variables, placement.command) > LONGEST:
            raise RefusedError(f"the configuration has more than {LONGEST} bytes")
        if placement.started_at is None:
            placement = msgspec.structs.replace(placement, started_at=time.time())
            self._memory.put(placement)  # before it starts: a run that may have begun never begins again
        await self._units.start(copy, placement.command, variables)
        log.info("started", copy=copy)

    async def _stop(self, order: Stop) -> None:
        copy = copy_of(order.instance, order.release, order.run)
        await self._units.stop(copy)
        placement = self._memory.placements.get(copy)
        if placement is not None:
            self._memory.note_use(placement.sha256, placement.artifact, time.time())
            self._memory.drop(copy)
            log.info("stopped", copy=copy)


def _placement(order: Place, release: ReleaseStatement, link: Link) -> Placement:
    """Return what an order places, once it goes with what the log says. Raises RefusedError."""
    app, process_type, _ = order.instance.split(".")
    if (app, order.release) != (release.app, release.number):
        raise RefusedError(
            f"the proof is of {release.app} v{release.number}, and not of {app} v{order.release}"
        )
    if not order.run and process_type != order.process_type:
        raise RefusedError(f"{order.instance} is not of the process type {order.process_type}")
    process = release.processes.get(order.process_type)
    if process is None and not order.run:
        raise RefusedError(f"{app} v{order.release} has no process type {order.process_type}")
    if not link.first_port <= order.port < link.first_port + link.ports:
        raise RefusedError(f"port {order.port} is none of this server's")
    if order.run and not order.command:
        raise RefusedError("a run without a command")
    process = process or Process(command=order.command)
    command = order.command if order.run else process.command
    try:
        words(command, {})
    except CommandError as error:
        raise RefusedError(f"the command of {order.instance}: {error}") from error
    return Placement(
        instance=order.instance,
        release=order.release,
        process_type=order.process_type,
        port=order.port,
        command=command,
        artifact=release.artifact,
        sha256=release.sha256,
        size=release.size,
        environment=release.environment,
        health=process.health,
        memory=process.limits.memory,
        processors=process.limits.processors,
        grace=process.grace,
        run=order.run,
    )


def _same(known: Placement, placement: Placement) -> bool:
    """Tell whether a copy is placed so already, whatever has become of it since."""
    return placement == msgspec.structs.replace(known, started_at=None, exit_code=None, ended=False)


def _rotated(order: Rotate, link: Link) -> Link:
    """Return the link with the hub's new key; with `ends`, with that key alone."""
    key = check_public_key(order.public_key)
    keys = [key] if order.ends else [key, *(each for each in link.hub_keys if each != key)]
    return msgspec.structs.replace(link, hub_keys=keys)
