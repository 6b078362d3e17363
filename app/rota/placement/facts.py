"""What a placement is decided by: values that the log can hold, so that anyone can decide again."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from rota.wire.statements import Capabilities, Limits, Requires


class Fact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that is written down and read again exactly."""


class ServerFacts(Fact, frozen=True, kw_only=True):
    """One server. `latency` is the round trip to the primary in microseconds, None before it is known.

    `apps` counts the instances that stay there, by app.
    """

    name: str
    enrolled: bool = True
    lost: bool = False
    primary: bool = False
    capabilities: Capabilities | None = None
    latency: int | None = None
    ports: int = 0  # free ones
    apps: dict[str, int] = {}

    @property
    def total(self) -> int:
        """How many instances stay there."""
        return sum(self.apps.values())


class Wish(Fact, frozen=True, kw_only=True):
    """One instance that needs a server. `holder` is the server that has the app's storage."""

    instance: str
    app: str
    process_type: str
    requires: Requires = Requires()
    limits: Limits = Limits()
    use: list[str] = []
    avoid: list[str] = []
    holder: str = ""


class Facts(Fact, frozen=True, kw_only=True):
    """Everything that decides. `database_latency` is in milliseconds."""

    servers: list[ServerFacts]
    wishes: list[Wish]
    database_latency: Annotated[int, Meta(ge=0)] = 5


class Verdict(Fact, frozen=True, kw_only=True):
    """Why a server was or was not taken for one instance: by rule, what was against it."""

    server: str
    against: dict[str, str] = {}
    rank: int | None = None  # among those that were left, from 1


class Placed(Fact, frozen=True, kw_only=True):
    """Where one instance belongs, with the verdict on every server; `server` is empty where none will do."""

    instance: str
    server: str
    verdicts: list[Verdict]


Reasons = Mapping[str, str]
