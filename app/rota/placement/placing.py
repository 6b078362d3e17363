"""Decides which server each instance belongs on. The same facts give the same answer, always."""

from collections.abc import Sequence

import msgspec

from rota.errors import ConflictError
from rota.placement.facts import Facts, Placed, ServerFacts, Verdict, Wish
from rota.placement.rules import against, near


def place(facts: Facts) -> list[Placed]:
    """Return where each wish belongs, in the order of the wishes; each counts for those after it."""
    servers = {server.name: server for server in sorted(facts.servers, key=lambda each: each.name)}
    found, holders = [], dict[str, str]()
    for wish in facts.wishes:
        asked = wish
        if wish.requires.storage and not wish.holder and wish.app in holders:
            asked = msgspec.structs.replace(wish, holder=holders[wish.app])
        placed = _one(asked, list(servers.values()), facts.database_latency)
        found.append(placed)
        if placed.server:
            servers[placed.server] = _with(servers[placed.server], wish.app)
            holders.setdefault(wish.app, placed.server)
    return found


def refuse_unplaced(placed: Sequence[Placed]) -> None:
    """Refuse a plan in which something has no server. Raises ConflictError with every reason."""
    for each in placed:
        if not each.server:
            raise ConflictError(
                f"No server can run {each.instance}. {explain(each)}",
                "Change the pins or what the app requires, or enrol another server; nothing was changed.",
            )


def explain(placed: Placed) -> str:
    """Return the reasons against each server that was not taken, as one text."""
    said = [
        f"{verdict.server}: {'; '.join(verdict.against.values())}."
        for verdict in placed.verdicts
        if verdict.against
    ]
    return " ".join(said) or "There is no server."


def _one(wish: Wish, servers: list[ServerFacts], limit: int) -> Placed:
    reasons = {server.name: against(wish, server) for server in servers}
    left = [server for server in servers if not reasons[server.name]]
    close = [server for server in left if near(server, limit)]
    if wish.requires.database and close:
        for server in left:
            if server not in close:
                latency = "unknown" if server.latency is None else f"{server.latency / 1000:.1f} ms"
                reasons[server.name] = {
                    "database": f"its latency to the primary is {latency}, and others are within {limit} ms"
                }
        left = close
    left.sort(key=lambda server: (server.apps.get(wish.app, 0), server.total, server.name))
    ranks = {server.name: rank for rank, server in enumerate(left, 1)}
    verdicts = [
        Verdict(server=server.name, against=reasons[server.name], rank=ranks.get(server.name))
        for server in servers
    ]
    return Placed(instance=wish.instance, server=left[0].name if left else "", verdicts=verdicts)


def _with(server: ServerFacts, app: str) -> ServerFacts:
    apps = {**server.apps, app: server.apps.get(app, 0) + 1}
    return msgspec.structs.replace(server, apps=apps, ports=server.ports - 1)
