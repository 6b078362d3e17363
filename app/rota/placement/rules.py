"""The rules by which a server may run an instance, each with the sentence for the operator."""

from collections.abc import Callable

from rota.placement.facts import ServerFacts, Wish

MIB = 1024**2
Rule = Callable[[Wish, ServerFacts], str]


def enrolled(_: Wish, server: ServerFacts) -> str:
    """Only a server that has completed its enrolment."""
    return "" if server.enrolled else "it is not enrolled"


def live(_: Wish, server: ServerFacts) -> str:
    """Nothing is placed on a server that is not heard of."""
    return "it is lost: its reports are missing" if server.lost else ""


def use(wish: Wish, server: ServerFacts) -> str:
    """A pin: these servers and no others."""
    if not wish.use or server.name in wish.use:
        return ""
    return f"{wish.process_type} is pinned to {', '.join(wish.use)}"


def avoid(wish: Wish, server: ServerFacts) -> str:
    """A pin: not these servers."""
    return f"{wish.process_type} is pinned away from it" if server.name in wish.avoid else ""


def storage(wish: Wish, server: ServerFacts) -> str:
    """An app with storage of its own stays where that is."""
    if not wish.requires.storage or not wish.holder or server.name == wish.holder:
        return ""
    return f"the storage of {wish.app} is on {wish.holder}"


def primary(wish: Wish, server: ServerFacts) -> str:
    """What an addon serves on the primary alone."""
    return (
        "an addon of the app is on the primary alone" if wish.requires.primary and not server.primary else ""
    )


def virtualisation(wish: Wish, server: ServerFacts) -> str:
    """Apps that run in virtual machines."""
    offers = server.capabilities is not None and server.capabilities.virtualisation
    return "" if offers or not wish.requires.virtualisation else "it has no hardware virtualisation"


def memory(wish: Wish, server: ServerFacts) -> str:
    """At least the memory that the app requires, and one instance may use."""
    needed = max(wish.requires.memory, wish.limits.memory)
    offered = server.capabilities.memory if server.capabilities else 0
    if needed <= offered:
        return ""
    return f"it has {offered // MIB} MiB of memory and {needed // MIB} MiB are required"


def processors(wish: Wish, server: ServerFacts) -> str:
    """At least the processors that the app requires."""
    offered = server.capabilities.processors if server.capabilities else 0
    needed = wish.requires.processors
    return "" if needed <= offered else f"it has {offered} processors and {needed} are required"


def ports(_: Wish, server: ServerFacts) -> str:
    """Each instance listens at a port of its own."""
    return "" if server.ports > 0 else "every port that it has for instances is taken"


RULES: dict[str, Rule] = {
    "enrolled": enrolled,
    "live": live,
    "use": use,
    "avoid": avoid,
    "storage": storage,
    "primary": primary,
    "virtualisation": virtualisation,
    "memory": memory,
    "processors": processors,
    "ports": ports,
}


def against(wish: Wish, server: ServerFacts) -> dict[str, str]:
    """Return what speaks against a server, by rule; nothing where it may run the instance."""
    said = {name: rule(wish, server) for name, rule in RULES.items()}
    return {name: reason for name, reason in said.items() if reason}


def near(server: ServerFacts, limit: int) -> bool:
    """Tell whether a server is within so many milliseconds of the primary."""
    return server.primary or (server.latency is not None and server.latency <= limit * 1000)
