"""`/api/apps/{app}/config`: names to who may read, values to who may write."""

import base64
import binascii
from typing import Annotated

import msgspec
from falcon.asgi import Request, Response

from rota.access.scopes import Scope
from rota.acts.act import Act
from rota.acts.recorder import perform
from rota.configuration import opening
from rota.configuration.vault import size_of
from rota.deploys.asking import Asking
from rota.errors import ConflictError, InputError
from rota.hub import Hub
from rota.releases.configuring import Change, Changed, Configuring, no_value
from rota.tlog.records import Logged
from rota.web.bodies import answered, received
from rota.web.endpoint import Answer, Routes, endpoint

LONGEST = 1024 * 1024  # bytes of a body

Name = Annotated[str, msgspec.Meta(max_length=255)]


class ChangeDocument(msgspec.Struct, forbid_unknown_fields=True):
    """Values to set, in base64, and names to take away; with `expected` only from that version on."""

    set: dict[str, str] = msgspec.field(default_factory=dict)
    unset: list[Name] = msgspec.field(default_factory=list)
    expected: Annotated[int, msgspec.Meta(ge=0)] | None = None


class ChangedDocument(msgspec.Struct):
    """The new version; the release and the deploy that bring it, or why none does."""

    number: int
    release: int | None = None
    deploy: int | None = None
    reason: str = ""


class NameDocument(msgspec.Struct):
    """One value: its name, the random id of its version, and its size in bytes."""

    name: str
    version: str
    size: int


class ConfigurationDocument(msgspec.Struct):
    """The newest version: what there is, and nothing of what it says."""

    number: int
    names: list[NameDocument]


class AskedDocument(msgspec.Struct, forbid_unknown_fields=True):
    """Which values to show; every one where none is named."""

    names: list[Name] = msgspec.field(default_factory=list)


class ValuesDocument(msgspec.Struct):
    """Values in base64."""

    number: int
    values: dict[str, str]


class ConfigurationResource:
    """An app's configuration."""

    def __init__(self, hub: Hub) -> None:
        """Show and change that of this hub's apps."""
        self._tlog = hub.tlog
        bus, queue = hub.together.bus, hub.together.queue
        self._configuring = Configuring(hub.database, hub.tlog, bus)
        self._opening = opening.Asking(hub.database, queue)
        self._deploys = Asking(hub.settings, hub.database, hub.tlog, queue, bus)

    @endpoint(
        Scope.APPS_READ,
        "The names of an app's configuration",
        answers={200: Answer("The names.", ConfigurationDocument)},
    )
    async def on_get(self, req: Request, resp: Response, app: str) -> None:
        """Answer the names."""
        row = await self._configuring.newest(app)
        names = [
            NameDocument(name, row.names[name], size_of(sealed))
            for name, sealed in sorted(row.sealed.items())
        ]
        answered(resp, ConfigurationDocument(row.number, names))

    @endpoint(
        Scope.APPS_WRITE,
        "Change an app's configuration, which makes a release and deploys it",
        body=ChangeDocument,
        answers={200: Answer("What it came to.", ChangedDocument)},
    )
    async def on_post(self, req: Request, resp: Response, app: str) -> None:
        """Set and take away."""
        asked, actor = await received(req, ChangeDocument, LONGEST), req.context.principal.actor
        values = {name: _decoded(name, value) for name, value in asked.set.items()}
        change = Change(values=values, unset=tuple(asked.unset), expected=asked.expected)
        changed = await self._configuring.change(actor, app, change)
        answered(resp, await self._deployed(actor, app, changed))

    @endpoint(
        Scope.APPS_WRITE,
        "Show values of an app's configuration, which is noted in the log",
        body=AskedDocument,
        answers={200: Answer("The values.", ValuesDocument)},
    )
    async def on_post_values(self, req: Request, resp: Response, app: str) -> None:
        """Have values opened by the primary's worker."""
        asked, actor = await received(req, AskedDocument), req.context.principal.actor
        row = await self._configuring.newest(app)
        for name in asked.names:
            if name not in row.names:
                raise no_value(app, name)
        wanted = sorted(asked.names or row.names)
        details = {"names": wanted, "number": row.number}
        act = Act(kind="config.read", actor=actor, subject=f"app:{app}", details=details)

        async def work(_: Logged) -> dict[str, bytes]:
            return await self._opening.values(app, row.number)

        values = await perform(self._tlog, act, work) if wanted else {}
        told = {name: base64.b64encode(values[name]).decode() for name in wanted}
        answered(resp, ValuesDocument(row.number, told))

    async def _deployed(self, actor: str, app: str, changed: Changed) -> ChangedDocument:
        """Begin the deploy of what was made; where that cannot be, the change stands and says so."""
        if changed.release is None:
            return ChangedDocument(changed.number, reason=f"It comes with the first deploy of {app}.")
        number = changed.release.number
        try:
            begun = await self._deploys.again(actor, app, number, "config")
        except ConflictError as error:
            return ChangedDocument(changed.number, number, reason=f"{error} {error.remedy}")
        return ChangedDocument(changed.number, number, begun.deploy)


def add_routes(routes: Routes, hub: Hub) -> None:
    """Add them to a web process's app."""
    resource = ConfigurationResource(hub)
    routes.add("/api/apps/{app}/config", resource)
    routes.add("/api/apps/{app}/config/values", resource, suffix="values")


def _decoded(name: str, value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"The value of {name} is no base64.", "Send it so: values are bytes.") from error
