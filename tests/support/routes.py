"""The table of routes of a hub that nothing serves, for tests made from it."""

import re
from pathlib import Path

from tests.support.settings import sqlite_settings

from rota import wiring
from rota.hub import Hub
from rota.settings import Settings
from rota.web.app import create_routes
from rota.web.endpoint import Answer, Endpoint, Routes

STREAM = "text/event-stream"


def routes_of(settings: Settings) -> tuple[Hub, Routes]:
    """Return a hub that is not started, and its routes."""
    hub = wiring.make_hub(settings)
    return hub, create_routes(hub)


def table(place: Path) -> list[tuple[str, str, Endpoint]]:
    """Return every route of a web process."""
    return list(routes_of(sqlite_settings(place))[1])


def filled(path: str) -> str:
    """Return a path whose fields name nothing that there is."""
    return re.sub(
        r"\{\w+(:\w+)?(\(.*?\))?\}",
        lambda found: "nothing" if found[1] in (None, ":path") else "999999",
        path,
    )


def streams(declared: Endpoint) -> bool:
    """Tell whether a route answers a stream that does not end."""
    return any(
        isinstance(each, Answer) and each.media.startswith(STREAM) for each in declared.answers.values()
    )
