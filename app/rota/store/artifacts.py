"""Artifacts: what the store on disk holds, and when it was last of use."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rota.store.database import Database, Row, Transaction
from rota.store.moments import moment

Kind = Literal["source", "build"]


@dataclass(frozen=True, kw_only=True)
class ArtifactRow:
    """One artifact: its BLAKE3 and SHA-256 in hex, its size in bytes.

    `source` is what somebody packed for a deploy, `build` what servers run.
    """

    hash: str
    sha256: str
    size: int
    kind: Kind
    created_at: datetime
    used_at: datetime


class Artifacts:
    """Static methods belong to the transaction of their caller."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def all(self) -> list[ArtifactRow]:
        """Return every one, the one used longest ago first."""
        rows = await self._database.read(lambda tx: tx.all("artifacts.all"))
        return [_artifact(row) for row in rows]

    async def find(self, artifact: str) -> ArtifactRow | None:
        """Return one by its BLAKE3, None where it is not there."""
        return await self._database.read(lambda tx: self.within(tx, artifact))

    @staticmethod
    async def within(tx: Transaction, artifact: str) -> ArtifactRow | None:
        """Return one as this transaction sees it."""
        row = await tx.one("artifacts.find", hash=artifact)
        return None if row is None else _artifact(row)

    @staticmethod
    async def add(tx: Transaction, artifact: str, sha256: str, size: int, kind: Kind) -> None:
        """Say that one is in the store, or that it is of use again."""
        await tx.run("artifacts.add", hash=artifact, sha=sha256, size=size, kind=kind)

    @staticmethod
    async def use(tx: Transaction, artifact: str) -> bool:
        """Note that one is of use now; return False where it is not there."""
        return await tx.run("artifacts.use", hash=artifact) == 1

    @staticmethod
    async def remove(tx: Transaction, artifact: str, idle: float) -> bool:
        """Forget one that was of no use for `idle` seconds; return False for any other."""
        return await tx.run("artifacts.remove", hash=artifact, idle=idle) == 1


def _artifact(row: Row) -> ArtifactRow:
    return ArtifactRow(
        hash=row["hash"],
        sha256=row["sha256"],
        size=row["size"],
        kind=row["kind"],
        created_at=moment(row["created_at"]),
        used_at=moment(row["used_at"]),
    )
