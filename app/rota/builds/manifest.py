"""What a build made: the part of a release that does not depend on its number or configuration."""

import msgspec

from rota.errors import DamagedError
from rota.wire.statements import Process, ProcessType, Requires, Strict


class Manifest(Strict, frozen=True, kw_only=True):
    """The process types, what they require, the release hook's command, and the environment they find.

    `required` are the names that the app's configuration must have.
    """

    processes: dict[ProcessType, Process]
    requires: Requires = Requires()
    hook: str = ""
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    required: list[str] = msgspec.field(default_factory=list)


def written(manifest: Manifest) -> str:
    """Return a manifest as its row holds it."""
    return msgspec.json.encode(manifest, order="deterministic").decode()


def read(text: str) -> Manifest:
    """Read a manifest. Raises DamagedError for what no build of ours has written."""
    try:
        return msgspec.json.decode(text, type=Manifest)
    except msgspec.MsgspecError as error:
        raise DamagedError(f"the manifest of a build cannot be read: {error}") from error
