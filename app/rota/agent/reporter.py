"""Reports to the hub, every few seconds and at once on a change; and the rotation of its key."""

import asyncio
import os
import time
from pathlib import Path

import msgspec
import structlog

from rota import __version__
from rota.agent.caller import UnreachedError, call
from rota.agent.enrolling import memory_bytes
from rota.agent.inbox import Inbox
from rota.agent.memory import AgentMemory
from rota.agent.monitor import Monitor
from rota.agent.trust import Trust
from rota.wire import channel
from rota.wire.answer import Answer
from rota.wire.statements import Load, Message, Report, Rotate

SOON = 0.1  # seconds within which changes are gathered into one report

log = structlog.get_logger("rota.agent")


class Reporter:
    """Says how this server is, for as long as it runs."""

    def __init__(self, memory: AgentMemory, monitor: Monitor, inbox: Inbox, name: str) -> None:
        """Report in the name of this server."""
        self._memory = memory
        self._monitor = monitor
        self._inbox = inbox
        self._name = name
        self._change = asyncio.Event()
        self._trouble = ""
        self._round_trip: int | None = None
        self._offset: int | None = None

    def changed(self) -> None:
        """Report soon."""
        self._change.set()

    async def run(self, trust: Trust) -> None:
        """Report, again and again; what goes wrong is logged once, and tried again."""
        while True:
            self._change.clear()
            every = self._memory.link.report_every if self._memory.link else 5
            try:
                every = await self._once(trust) or every
                if self._trouble:
                    log.info("the hub hears again")
                self._trouble = ""
            except UnreachedError as error:
                if str(error) != self._trouble:
                    log.warning("the hub does not hear", reason=str(error))
                self._trouble = str(error)
            try:
                async with asyncio.timeout(every):
                    await self._change.wait()
                await asyncio.sleep(SOON)
            except TimeoutError:
                continue

    async def _once(self, trust: Trust) -> int:
        """Send one report, and a rotation where one is due; return the seconds until the next."""
        if (key := await asyncio.to_thread(self._memory.next_key)) is not None:
            await self._rotate(Rotate(public_key=key.public))
            await asyncio.to_thread(self._memory.change_key, key)
            await self._rotate(Rotate(public_key=key.public, ends=True))
            log.info("the key was changed")
        refused = list(self._inbox.refused)
        report = Report(
            instances=self._monitor.instances(),
            runs=self._monitor.runs(),
            load=load(self._memory.directory),
            clock_offset=self._offset,
            round_trip=self._round_trip,
            agent_version=__version__,
            log_size=await asyncio.to_thread(lambda: trust.size),
            unheard_for=self._inbox.unheard_for,
            refused=refused,
        )
        sent = time.monotonic_ns()
        answer = await self._say(report)
        took = (time.monotonic_ns() - sent) // 1000
        if answer.state == "done":
            self._inbox.heard()
            for _ in refused:
                self._inbox.refused.popleft()
            self._round_trip = took if self._round_trip is None else (3 * self._round_trip + took) // 4
            if answer.now:
                self._offset = time.time_ns() // 1000 - answer.now - took // 2
        return answer.report_every

    async def _rotate(self, rotate: Rotate) -> None:
        answer = await self._say(rotate)
        if answer.state != "done":
            raise UnreachedError(f"the hub does not take the new key: {answer.reason}")

    async def _say(self, body: Message) -> Answer:
        """Send a message of ours, numbered before it goes. Raises UnreachedError."""
        link = self._memory.link
        if link is None:
            raise UnreachedError("this server is not enrolled")
        envelope = channel.write(link.outgoing(self._name), body, self._memory.key)
        # Not in a thread: what is heard meanwhile is kept in the same file.
        self._memory.set_link(msgspec.structs.replace(link, said=link.said + 1))
        status, data = await asyncio.to_thread(call, link.url, "POST", "/agents/messages", envelope)
        try:
            answer = msgspec.json.decode(data, type=Answer)
        except msgspec.MsgspecError as error:
            raise UnreachedError(f"{link.url} answered {status} and nothing that a hub says") from error
        if answer.state == "refused" and not isinstance(body, Rotate):
            raise UnreachedError(f"the hub refused: {answer.reason}")
        return answer


def load(directory: Path) -> Load:
    """Return how busy this machine is."""
    disk = os.statvfs(directory)
    return Load(
        average=int(os.getloadavg()[0] * 1000),
        memory_free=memory_bytes("MemAvailable"),
        memory=memory_bytes("MemTotal"),
        disk_free=disk.f_bavail * disk.f_frsize,
        disk=disk.f_blocks * disk.f_frsize,
    )
