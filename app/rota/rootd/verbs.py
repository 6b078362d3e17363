"""What may be asked of rootd: this table, and nothing else."""

from collections.abc import Callable, Mapping
from typing import Any

from rota.rootd import artifacts, instances
from rota.rootd.fields import BASE64, COPY, HASH, RefusedError, Rule, checked
from rota.rootd.places import Places

# What a verb does with its fields, and with the descriptor that was passed, if any.
Act = Callable[[Places, dict[str, Any], int | None], dict[str, Any]]

VERBS: Mapping[str, tuple[Mapping[str, Rule], Act]] = {
    "unpack": ({"sha256": HASH, "size": range(1, 2**40)}, artifacts.unpack),
    "forget": ({"sha256": HASH}, artifacts.forget),
    "place": (
        {
            "copy": COPY,
            "sha256": HASH,
            "port": range(1024, 65536),
            "memory": range(2**50),  # bytes; 0 is no limit
            "processors": range(10**6),  # thousandths; 0 is no limit
            "grace": range(1, 601),  # seconds
        },
        instances.place,
    ),
    "start": ({"copy": COPY, "configuration": BASE64}, instances.start),
    "stop": ({"copy": COPY}, instances.stop),
}


def act(places: Places, request: dict[str, Any], descriptor: int | None) -> dict[str, Any]:
    """Do what a request asks. Raises RefusedError."""
    name = request.pop("verb", None)
    if not isinstance(name, str) or name not in VERBS:
        raise RefusedError(f"there is no such verb: {', '.join(VERBS)}")
    rules, does = VERBS[name]
    return does(places, checked(rules, request), descriptor)
