"""What a server believes of the transparency log, and so what it starts.

A release starts only with a proof that its statement is in the log, in a tree
that goes together with every tree of this log that this server has seen.
"""

import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec

from rota.agent.caller import UnreachedError, call
from rota.agent.files import load, save
from rota.errors import MalformedError, ProofError, RotaError, SignatureError
from rota.releases import statement as statements
from rota.tlog.checkpoint import Checkpoint, parse_checkpoint
from rota.tlog.disk import LocalDisk
from rota.tlog.keys import COSIGNATURE, Verifier, read_verifier
from rota.tlog.merkle import consistency_proof, range_root, verify_consistency
from rota.tlog.notes import parse_note
from rota.tlog.policy import Policy
from rota.tlog.proof import LONGEST, parse_proof, verify_proof
from rota.tlog.strict import HASH_SIZE
from rota.tlog.tiles import Tile
from rota.tlog.tree import ReadTile, TileHashes
from rota.tlog.witness import Witness
from rota.wire.keys import SigningKey
from rota.wire.statements import Place, ReleaseStatement

OK, NOT_FOUND = 200, 404


class RefusedError(RotaError):
    """An order is not obeyed; the message says why, to both sides."""


class _Newest(msgspec.Struct, frozen=True):
    """The newest checkpoint that a release came with, with its signatures: evidence, if there is another."""

    size: int
    root: bytes
    note: str


class Trust:
    """One log, as this server knows it. Its methods block."""

    def __init__(self, directory: Path, log_key: str, witness_key: SigningKey, name: str) -> None:
        """Keep what was seen in this directory. Raises MalformedError for what is no log's key."""
        self._log: Verifier = read_verifier(log_key)
        self._seen = directory / f"newest-{self._log.id.hex()}.json"
        signer = witness_key.note_signer(name, COSIGNATURE)
        self.witness = Witness(signer, {self._log.name: [self._log]}, LocalDisk(directory))

    @property
    def size(self) -> int:
        """How many entries the largest tree has that this server knows to be the log's."""
        return max((tree.size for tree in self._known()), default=0)

    def release(self, place: Place, url: str, now: float | None = None) -> ReleaseStatement:
        """Return the release that an order places, once it is proved to be in the log of the hub at `url`.

        Raises RefusedError, and UnreachedError where the hub does not give what a proof needs.
        """
        entry, proof = place.statement.encode(), place.proof.encode()
        if len(proof) > LONGEST:
            raise RefusedError("its proof is too long")
        policy = Policy(logs=[self._log])
        try:
            proved = parse_proof(proof)
            checkpoint = verify_proof(proved, entry, policy, int(time.time() if now is None else now))
            release = statements.read(entry)
        except (MalformedError, SignatureError, ProofError) as error:
            raise RefusedError(f"no proof that the release is in the log: {error}") from error
        self._follow(checkpoint, proved.checkpoint, _reading(url))
        return release

    def _follow(self, checkpoint: Checkpoint, note: bytes, read: ReadTile) -> None:
        """Go on from every tree known to this one, or refuse it and keep the note as evidence."""
        known = self._known()
        for tree in known:
            try:
                _agree(tree, checkpoint, read)
            except (ProofError, MalformedError) as error:
                evidence = self._seen.with_name(f"forked-{checkpoint.size}-{checkpoint.root.hex()[:16]}.note")
                save(evidence, note.decode(errors="replace"))
                raise RefusedError(
                    f"the log forked: its tree of {checkpoint.size} entries does not go with the one of "
                    f"{tree.size} that this server has seen; both are kept in {self._seen.parent}: {error}"
                ) from error
        if all(tree.size < checkpoint.size for tree in known):
            save(self._seen, _Newest(checkpoint.size, checkpoint.root, note.decode()))

    def _known(self) -> list[Checkpoint]:
        """Return the newest tree that a release came with, and the one last cosigned."""
        found = []
        newest = load(self._seen, _Newest)
        if newest is not None:
            found.append(parse_checkpoint(parse_note(newest.note.encode()).text))
        cosigned = self.witness.checkpoint(sha256(self._log.name.encode()).hexdigest())
        if cosigned is not None:
            found.append(parse_checkpoint(parse_note(cosigned).text))
        return found


def _agree(known: Checkpoint, new: Checkpoint, read: ReadTile) -> None:
    """Check that of two trees of one log the smaller is the beginning of the larger. Raises ProofError."""
    if known.size == new.size:
        if known.root != new.root:
            raise ProofError("two trees of one size differ")
    elif known.size > new.size:
        hashes = TileHashes(known.size, known.root, read)
        if range_root(0, new.size, hashes) != new.root:
            raise ProofError("the smaller tree is no beginning of the larger one")
    elif known.size:
        proof = consistency_proof(known.size, new.size, TileHashes(new.size, new.root, read))
        verify_consistency(known.size, new.size, proof, known.root, new.root)


def _reading(url: str) -> Callable[[Tile], bytes]:
    """Return what reads tiles of hashes from the hub; they are believed once they lead to a signed root."""

    def read(tile: Tile) -> bytes:
        status, data = call(url, "GET", f"/log/{tile.path}")
        if status == NOT_FOUND and tile.width < tile.full.width:
            status, data = call(url, "GET", f"/log/{tile.full.path}")  # the partial one was filled since
            data = data[: tile.width * HASH_SIZE]
        if status != OK:
            raise UnreachedError(f"{url}/log/{tile.path}: the hub answered {status}")
        return data

    return read
