"""`tlog.checkpointer`: signs what was appended, has it witnessed, and publishes it."""

import asyncio
import time
from pathlib import Path
from typing import NamedTuple

import structlog

from rota.acts.key import need_signer, read_policy
from rota.coordination.bus.bus import Bus
from rota.coordination.bus.events import Live
from rota.coordination.leader import Term
from rota.drivers.http import HttpPost
from rota.errors import TlogError
from rota.settings import Settings
from rota.store.database import Database
from rota.store.tlog import SignedRows
from rota.tlog.checkpoint import Checkpoint
from rota.tlog.cosigning import Cosigning
from rota.tlog.disk import LocalDisk
from rota.tlog.exporter import Exporter
from rota.tlog.keys import Signer
from rota.tlog.merkle import consistency_proof
from rota.tlog.notes import Note, parse_note
from rota.tlog.policy import Policy
from rota.tlog.signing import Signed, SignedFile, newest, nothing_signed, sign_tree
from rota.tlog.tree import TileHashes

TOPIC = "log"  # of the events that pages listen to
INTERVAL = 1.0  # seconds between two looks for new entries
AGAIN = 10.0  # seconds after which witnesses that were missing are asked again

log = structlog.get_logger("rota.tlog")


class Checkpointer:
    """Leads one log. In this order: tiles, signature, database, file, witnesses, checkpoint."""

    def __init__(self, settings: Settings, database: Database, bus: Bus | None = None) -> None:
        """Sign this hub's log, and tell pages over the bus of each checkpoint."""
        self._settings = settings
        self._bus = bus
        self._rows = SignedRows(database)

    async def __call__(self, term: Term) -> None:
        """Sign each time there is something new, until asked to stop. Raises TlogError to sign no more."""
        signer = await asyncio.to_thread(need_signer, self._settings)
        policy = await asyncio.to_thread(read_policy, self._settings)
        post = HttpPost()
        try:
            await _Leading(
                self._settings.tlog_directory,
                self._rows,
                _Trust(signer, policy),
                _World(post, self._bus),
                term,
            ).run()
        except OSError as error:
            raise TlogError(f"the tlog's files: {error.strerror}") from error
        finally:
            await post.close()


class _Trust(NamedTuple):
    """Who signs, and who must agree."""

    signer: Signer
    policy: Policy


class _World(NamedTuple):
    """How witnesses are asked, and who is told."""

    post: HttpPost
    bus: Bus | None


class _Leading:
    """One term."""

    def __init__(
        self,
        directory: Path,
        rows: SignedRows,
        trust: "_Trust",
        world: "_World",
        term: Term,
    ) -> None:
        self._rows = rows
        post, self._bus = world
        self._signer, self._policy = trust
        self._term = term
        self._file = SignedFile(LocalDisk(directory))
        self._exporter = Exporter(directory, term.fence.generation)
        self._cosigning = Cosigning(self._policy.witnesses, post, self._prove)
        self._asked = 0.0
        self._reached = True

    async def run(self) -> None:
        origin = self._signer.verifier.name
        kept = await asyncio.to_thread(self._file.last)
        if kept is not None and kept.origin != origin:
            raise TlogError(
                f"the tlog's directory is signed as {kept.origin}, and the key is {origin}'s: "
                "give the key that belongs to it, or another directory"
            )
        signed = newest(kept, await self._rows.last(origin)) or nothing_signed(origin)
        await asyncio.to_thread(self._exporter.begin, signed)
        published = await asyncio.to_thread(self._exporter.publication.checkpoint)
        while True:
            await asyncio.to_thread(self._exporter.catch_up)
            if self._exporter.size > signed.size or not signed.note:
                signed = await self._sign()
            if published is None or self._behind(published, signed):
                published = await self._publish(signed) or published
            await asyncio.to_thread(self._exporter.tidy)
            if await self._term.pause(INTERVAL):
                return

    async def _sign(self) -> Signed:
        exporter, fence = self._exporter, self._term.fence
        signed = sign_tree(
            self._signer, (fence.generation, fence.epoch), exporter.size, exporter.root(), exporter.position
        )
        self._term.check()
        await self._rows.save(fence, signed)
        self._term.check()
        await asyncio.to_thread(self._file.save, signed)
        return signed

    async def _publish(self, signed: Signed) -> bytes | None:
        """Have a checkpoint cosigned and publish it; return it, or None where the quorum was not reached."""
        note = parse_note(signed.note.encode())
        lines = await self._cosigning.gather(note)
        self._asked = time.monotonic()
        data = str(Note(note.text, (*note.signatures, *lines))).encode()
        reached = self._policy.reached(self._policy.agreeing(data, int(time.time())))
        self._tell(reached=reached)
        if not reached:
            return None
        self._term.check()
        await asyncio.to_thread(self._exporter.publication.publish, data)
        if self._bus is not None:
            self._bus.publish(Live(TOPIC, "checkpoint"))
        return data

    def _tell(self, *, reached: bool) -> None:
        """Log that the quorum was missed, or reached again: once each, though it is asked for each second."""
        if self._reached and not reached:
            log.warning("checkpoints not published", reason=f"the quorum {self._policy.quorum} was missed")
        if reached and not self._reached:
            log.info("checkpoints published again")
        self._reached = reached

    def _behind(self, published: bytes, signed: Signed) -> bool:
        """Tell whether to publish anew: another tree is signed, or missing witnesses are asked again."""
        note = parse_note(published)
        if note.text != parse_note(signed.note.encode()).text:
            return True
        wanted = sum(bool(witness.url) for witness in self._policy.witnesses.values())
        missing = len(note.signatures) - 1 < wanted
        return missing and time.monotonic() - self._asked > AGAIN

    def _prove(self, old: int, checkpoint: Checkpoint) -> list[bytes]:
        hashes = TileHashes(checkpoint.size, checkpoint.root, self._exporter.publication.read)
        return consistency_proof(old, checkpoint.size, hashes)
