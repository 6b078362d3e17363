"""How the instances here are: looked at each second, started again where systemd gave up."""

import asyncio
import time
from collections.abc import Callable

import msgspec
import structlog

from rota.agent.health import Pulse, probe
from rota.agent.memory import AgentMemory, Placement
from rota.agent.units import Seen, Units, UnitsError
from rota.wire.statements import InstanceReport, InstanceState, RunReport

EVERY = 1.0  # seconds between two looks
AGAIN = 60.0  # seconds after which a copy that systemd gave up is started again

log = structlog.get_logger("rota.agent")


class Monitor:
    """Holds what the next report says of instances and runs."""

    def __init__(self, memory: AgentMemory, units: Units, host: str, changed: Callable[[], None]) -> None:
        """Probe at `host`; call `changed` when an instance's state or health changed."""
        self._memory = memory
        self._units = units
        self._host = host
        self._changed = changed
        self._seen: dict[str, Seen] = {}
        self._pulses: dict[str, Pulse] = {}
        self._revived: dict[str, float] = {}
        self._lines: dict[str, str] = {}

    async def run(self) -> None:
        """Look, again and again."""
        while True:
            began = time.monotonic()
            await self.look()
            await asyncio.sleep(max(0.1, EVERY - (time.monotonic() - began)))

    async def look(self) -> None:
        """Look once at everything that was started."""
        before = self._told()
        try:
            self._seen = dict(await self._units.seen())
        except UnitsError as error:
            log.warning("the units cannot be seen", reason=str(error))
            return
        started = [each for each in self._memory.placements.values() if each.started_at is not None]
        await asyncio.gather(*(self._look_at(each) for each in started))
        for copy in self._pulses.keys() - self._memory.placements.keys():
            del self._pulses[copy]
            self._lines.pop(copy, None)
            self._revived.pop(copy, None)
        if self._told() != before:
            self._changed()

    def instances(self) -> list[InstanceReport]:
        """Return what to report of instances."""
        return [self._instance(each) for each in self._memory.placements.values() if not each.run]

    def runs(self) -> list[RunReport]:
        """Return what to report of runs."""
        return [self._run(each) for each in self._memory.placements.values() if each.run]

    async def _look_at(self, placement: Placement) -> None:
        copy, seen = placement.copy, self._seen.get(placement.copy)
        if placement.run:
            if seen is not None and seen.state in ("ended", "failed") and not placement.ended:
                ended = msgspec.structs.replace(placement, ended=True, exit_code=seen.exit_code)
                self._memory.put(ended)
            return
        if seen is None or seen.state != "running":
            self._pulses[copy] = Pulse(time.monotonic(), reason=seen.reason if seen else "it is not there")
            if seen is not None and seen.state == "failed":
                await self._revive(copy)
        else:
            pulse = self._pulses.get(copy) or Pulse(time.monotonic())
            problem = await probe(placement.health, self._host, placement.port)
            self._pulses[copy] = pulse.after(problem)
        if self._pulses[copy].well:
            self._lines.pop(copy, None)
        else:
            self._lines[copy] = await self._units.last_lines(copy)

    async def _revive(self, copy: str) -> None:
        """Start again what systemd gave up, once a minute: what it waited for may be back."""
        now = time.monotonic()
        if now - self._revived.setdefault(copy, now) < AGAIN:
            return
        self._revived[copy] = now
        try:
            await self._units.start(copy, "", None)
        except UnitsError as error:
            log.warning("not started again", copy=copy, reason=str(error))

    def _instance(self, placement: Placement) -> InstanceReport:
        copy = placement.copy
        seen, pulse = self._seen.get(copy), self._pulses.get(copy)
        state, reason = _state(placement, seen, pulse, time.monotonic())
        healthy = state == "running" and pulse is not None and pulse.well
        return InstanceReport(
            instance=placement.instance,
            release=placement.release,
            state=state,
            healthy=healthy,
            address=self._host,
            port=placement.port,
            restarts=seen.restarts if seen else 0,
            reason="" if healthy else reason[:500],
            last_lines="" if healthy else self._lines.get(copy, "")[-4000:],
        )

    def _run(self, placement: Placement) -> RunReport:
        seen = self._seen.get(placement.copy)
        if placement.ended and placement.exit_code is not None:
            return RunReport(run=placement.run, state="ended", exit_code=placement.exit_code)
        if placement.started_at is None:
            return RunReport(run=placement.run, state="placed")
        if not placement.ended and (seen is not None or time.time() - placement.started_at < AGAIN / 6):
            return RunReport(run=placement.run, state="running")
        reason = (
            seen.reason if seen and seen.reason else "it ended unseen: this server was started anew meanwhile"
        )
        return RunReport(run=placement.run, state="failed", reason=reason[:500])

    def _told(self) -> list[tuple[object, ...]]:
        """Return what a change of is reported at once."""
        instances = [(each.instance, each.release, each.state, each.healthy) for each in self.instances()]
        return [*instances, *((each.run, each.state) for each in self.runs())]


def _state(
    placement: Placement, seen: Seen | None, pulse: Pulse | None, now: float
) -> tuple[InstanceState, str]:
    """Return an instance's state and why it is not well."""
    if placement.started_at is None:
        return "placed", ""
    if pulse is None:
        return "starting", ""
    if seen is None:
        return "stopped", "it is not there: somebody stopped it here"
    if seen.state != "running":
        states: dict[str, InstanceState] = {"failed": "failed", "starting": "starting"}
        return states.get(seen.state, "restarting"), seen.reason
    if pulse.was_well:
        return "running", pulse.reason
    late = pulse.late(placement.health.start, now)
    why = f"not well within {placement.health.start} s: {pulse.reason}" if late else pulse.reason
    return "failed" if late else "starting", why
