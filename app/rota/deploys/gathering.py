"""What a placement is decided by, gathered from the rows. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from rota.placement.facts import Facts, ServerFacts, Wish
from rota.store.instances import InstanceRow
from rota.store.scales import Scale
from rota.store.servers import ENROLLED, ServerRow
from rota.wire.statements import ReleaseStatement

FIRST_COUNT = 1  # instances of a process type that nobody has scaled


def scales_of(statement: ReleaseStatement, known: Mapping[str, Scale]) -> dict[str, Scale]:
    """Return the scale of each process type of a release. A singleton runs once, or not at all."""
    found = {}
    for name, process in sorted(statement.processes.items()):
        scale = known.get(name) or Scale(process_type=name, count=FIRST_COUNT)
        count = min(scale.count, 1) if process.singleton else scale.count
        found[name] = Scale(
            process_type=name, count=count, use=scale.use, avoid=scale.avoid, version=scale.version
        )
    return found


def names(app: str, scale: Scale) -> list[str]:
    """Return the names of a process type's instances."""
    return [f"{app}.{scale.process_type}.{number}" for number in range(1, scale.count + 1)]


def facts(
    servers: Sequence[ServerRow],
    staying: Iterable[InstanceRow],
    taken: Mapping[str, set[int]],
    wishes: list[Wish],
    database_latency: int,
) -> Facts:
    """Return the facts. `staying` are the copies that count, `taken` the ports in use by server."""
    apps: dict[str, dict[str, int]] = {}
    for copy in staying:
        counts = apps.setdefault(copy.server, {})
        counts[copy.app] = counts.get(copy.app, 0) + 1
    return Facts(
        servers=[
            ServerFacts(
                name=server.name,
                enrolled=server.state == ENROLLED,
                lost=server.lost,
                primary=server.is_primary,
                capabilities=server.capabilities,
                latency=server.report.round_trip if server.report else None,
                ports=max(0, server.ports - len(taken.get(server.name, ()))),
                apps=apps.get(server.name, {}),
            )
            for server in servers
        ],
        wishes=wishes,
        database_latency=database_latency,
    )


def wishes(
    statement: ReleaseStatement, scales: Mapping[str, Scale], wanted: Iterable[str], holder: str
) -> list[Wish]:
    """Return the wish of each instance in `wanted`; `holder` has the app's storage, if anybody has."""
    found = []
    for name in wanted:
        process_type = name.split(".")[1]
        scale = scales[process_type]
        found.append(
            Wish(
                instance=name,
                app=statement.app,
                process_type=process_type,
                requires=statement.requires,
                limits=statement.processes[process_type].limits,
                use=list(scale.use),
                avoid=list(scale.avoid),
                holder=holder if statement.requires.storage else "",
            )
        )
    return found


def holder_of(statement: ReleaseStatement, copies: Sequence[InstanceRow]) -> str:
    """Return the server that has an app's storage: where its instances have run so far."""
    if not statement.requires.storage:
        return ""
    return min(copies, key=lambda copy: copy.id).server if copies else ""


def free_port(server: ServerRow, taken: set[int]) -> int:
    """Return the lowest port of a server that no instance has. Raises LookupError where there is none."""
    for port in range(server.first_port, server.first_port + server.ports):
        if port not in taken:
            return port
    raise LookupError(f"every port of {server.name} is taken")
