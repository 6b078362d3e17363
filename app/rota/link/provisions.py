"""What an order needs beside its row: the release's statement with its proof, the app's configuration."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from rota.configuration.vault import Vault
from rota.errors import TlogError
from rota.settings import Settings
from rota.store.configurations import Configurations
from rota.store.database import Database
from rota.store.releases import Release, Releases
from rota.store.tlog import Outbox
from rota.tlog.publication import Publication
from rota.tlog.view import AbsentError, Proved, View


class NotYetError(Exception):
    """An order waits for something; the message says for what."""


class Provisions(Protocol):
    """Where the sender looks things up."""

    async def act_of(self, app: str, release: int) -> int:
        """Return the row of the log's outbox that holds a release's statement. Raises LookupError."""

    async def configuration(self, app: str, release: int) -> Mapping[str, bytes]:
        """Return the values of a release, opened. Raises LookupError, and RotaError where no key opens it."""


class KeptReleases:
    """The releases and the configurations of this hub, opened with its key."""

    def __init__(self, settings: Settings, database: Database) -> None:
        """Look in this database."""
        self._releases = Releases(database)
        self._configurations = Configurations(database)
        self._vault = Vault(settings)

    async def act_of(self, app: str, release: int) -> int:
        """Return the row of a release's act."""
        return (await self._find(app, release)).act

    async def configuration(self, app: str, release: int) -> Mapping[str, bytes]:
        """Return the values, opened."""
        number = (await self._find(app, release)).configuration
        row = await self._configurations.find(app, number) if number else None
        if number and row is None:
            raise LookupError(f"{app} has no configuration {number}")
        return await asyncio.to_thread(self._vault.open, row)

    async def _find(self, app: str, release: int) -> Release:
        found = await self._releases.find(app, release)
        if found is None:
            raise LookupError(f"{app} has no release {release}")
        return found


class Proofs:
    """Proofs of what is in the published log."""

    def __init__(self, outbox: Outbox, directory: Path) -> None:
        """Read the log in this directory."""
        self._outbox = outbox
        self._view = View(Publication(directory))

    async def index(self, act: int) -> int:
        """Return where an act of the outbox stands in the log. Raises NotYetError."""
        index = await self._outbox.index_of(act)
        if index is None:
            raise NotYetError("its act is not in the log yet: a web process of the hub puts it there")
        return index

    async def proved(self, act: int) -> Proved:
        """Return an act's entry and its proof. Raises NotYetError."""
        index = await self.index(act)
        try:
            return await asyncio.to_thread(self._view.entry, index)
        except AbsentError as error:
            raise NotYetError("no checkpoint covers its release's statement yet") from error
        except (TlogError, OSError) as error:
            raise NotYetError(f"the log cannot be read: {error}") from error
