"""What a deploy will do, decided before it begins, and said so. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from rota.store.instances import InstanceRow, State
from rota.store.scales import Scale
from rota.wire.statements import ReleaseStatement

ROUTED = "web"  # the process type that requests are sent to


class TypePlan(msgspec.Struct, frozen=True, kw_only=True):
    """One process type: how many copies run and will, which names are new, what stays, what goes."""

    process_type: str
    now: int
    then: int
    new: list[str]
    stays: list[int]
    goes: list[int]
    singleton: bool
    gap: str = ""  # why it will not run for a while; empty where it will


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A deploy: from one release to another, by process type."""

    app: str
    release: int
    before: int | None
    types: list[TypePlan]
    hook: str = ""

    @property
    def gaps(self) -> list[str]:
        """Every gap, with its reason."""
        return [each.gap for each in self.types if each.gap]

    def sentences(self) -> list[str]:
        """Return the plan for people."""
        said = [
            f"{self.app} v{self.before} → v{self.release}" if self.before else f"{self.app} v{self.release}"
        ]
        if self.hook:
            said.append(f"first, once: {self.hook}")
        for each in self.types:
            change = f"{each.now} → {each.then}" if each.now != each.then else f"{each.then}"
            said.append(f"{each.process_type}: {change}, {len(each.new)} to start, {len(each.goes)} to stop")
        said += [f"there will be a gap: {gap}" for gap in self.gaps] or ["there will be no gap"]
        return said


def plan(
    statement: ReleaseStatement,
    before: int | None,
    scales: Mapping[str, Scale],
    live: Sequence[InstanceRow],
    *,
    moves: frozenset[int] = frozenset(),
) -> Plan:
    """Return what brings an app to a release at these scales. `moves` are copies that must go elsewhere."""
    types = []
    gone = {copy.process_type for copy in live} - statement.processes.keys()
    for name in sorted({*statement.processes, *gone}):
        copies = [copy for copy in live if copy.process_type == name and copy.state is not State.STOPPED]
        types.append(_type(statement, name, scales.get(name), copies, moves))
    hook = statement.hook if before != statement.number else ""
    return Plan(app=statement.app, release=statement.number, before=before, types=types, hook=hook)


def _type(
    statement: ReleaseStatement,
    name: str,
    scale: Scale | None,
    copies: Sequence[InstanceRow],
    moves: frozenset[int],
) -> TypePlan:
    wanted = [f"{statement.app}.{name}.{n}" for n in range(1, (scale.count if scale else 0) + 1)]
    stays: dict[str, int] = {}
    for copy in copies:
        fits = copy.release == statement.number and copy.id not in moves
        if fits and copy.name in wanted and copy.name not in stays and copy.state is not State.STOPPING:
            stays[copy.name] = copy.id
    goes = [copy.id for copy in copies if copy.id not in stays.values()]
    new = [each for each in wanted if each not in stays]
    process = statement.processes.get(name)
    singleton = bool(process and process.singleton)
    gap = ""
    if singleton and new and goes:
        gap = (
            f"{name} is a singleton: it is stopped before its replacement starts, so that it never runs twice"
        )
    elif name == ROUTED and copies and not wanted:
        gap = f"{name} goes to 0: nothing will answer"
    return TypePlan(
        process_type=name,
        now=len({copy.name for copy in copies}),
        then=len(wanted),
        new=new,
        stays=sorted(stays.values()),
        goes=sorted(goes),
        singleton=singleton,
        gap=gap,
    )
