"""The Go project's own verifier reads what our log makes, and refuses what ours refuses."""

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rota.tlog.checkpoint import Checkpoint
from rota.tlog.cosignature import cosign
from rota.tlog.disk import LocalDisk
from rota.tlog.exporter import Exporter
from rota.tlog.keys import COSIGNATURE, signer
from rota.tlog.merkle import (
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    parent_hash,
    range_root,
)
from rota.tlog.notes import Note, sign_note
from rota.tlog.records import Records
from rota.tlog.signing import nothing_signed

SOURCE = Path(__file__).parent / "verifier"
LOG = signer("hub.example/tlog", bytes(range(32)))
WITNESS = signer("witness.example/w", bytes(range(32, 64)), COSIGNATURE)
MOST = 65
LEVELS = [[leaf_hash(b"leaf %d" % number) for number in range(MOST)]]
while len(LEVELS[-1]) > 1:
    LEVELS.append([parent_hash(*LEVELS[-1][at : at + 2]) for at in range(0, len(LEVELS[-1]) - 1, 2)])


def read(level: int, index: int) -> bytes:
    return LEVELS[level][index]


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Verifier:
    """The built program, asked many things at once."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def ask(self, requests: list[dict[str, Any]]) -> list[str]:
        """Return the error to each request, empty where it holds."""
        done = subprocess.run(
            [str(self._program)],
            input="".join(json.dumps(each) + "\n" for each in requests),
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return [json.loads(line)["error"] for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Verifier:
    place = tmp_path_factory.mktemp("go")
    own = {"GO111MODULE": "off", "GOFLAGS": "", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    paths = {
        "GOPATH": f"{place / 'path'}:/usr/share/gocode",
        "GOCACHE": str(place / "cache"),
        "HOME": str(place),
    }
    program = place / "verifier"
    build = ["go", "build", "-o", str(program), "."]
    subprocess.run(build, cwd=SOURCE, env={**os.environ, **own, **paths}, check=True, timeout=300)
    return Verifier(program)


def test_our_notes_open(go: Verifier) -> None:
    note = sign_note(str(Checkpoint(LOG.verifier.name, 8, range_root(0, 8, read))), [LOG])
    cosigned = Note(note.text, (*note.signatures, cosign(WITNESS, note.text, 1_700_000_000)))
    other = signer(LOG.verifier.name, b"o" * 32).verifier
    good = [str(note), str(cosigned)]
    bad = [str(note).replace("\n8\n", "\n9\n"), str(note)[:-1], str(note).replace("— ", "- ")]
    requests = [{"op": "note", "key": str(LOG.verifier), "note": each} for each in [*good, *bad]]
    requests.append({"op": "note", "key": str(other), "note": good[0]})
    errors = go.ask(requests)
    assert errors[:2] == ["", ""]
    assert all(errors[2:])


def test_every_proof_of_inclusion_of_small_trees(go: Verifier) -> None:
    requests: list[dict[str, Any]] = [
        {
            "op": "inclusion",
            "index": index,
            "size": size,
            "root": text(range_root(0, size, read)),
            "leaf": text(read(0, index)),
            "proof": list(map(text, inclusion_proof(index, size, read))),
        }
        for size in range(1, MOST + 1)
        for index in range(size)
    ]
    assert set(go.ask(requests)) == {""}
    assert all(
        go.ask(
            [
                {**each, "index": each["size"] - 1 - each["index"], "leaf": text(bytes(32))}
                for each in requests
            ]
        )
    )


def test_every_proof_of_consistency_of_small_trees(go: Verifier) -> None:
    requests = [
        {
            "op": "consistency",
            "old": old,
            "size": new,
            "root": text(range_root(0, new, read)),
            "oldRoot": text(range_root(0, old, read)),
            "proof": list(map(text, consistency_proof(old, new, read))),
        }
        for new in range(1, MOST + 1)
        for old in range(1, new + 1)
    ]
    assert set(go.ask(requests)) == {""}
    assert all(go.ask([{**each, "oldRoot": text(bytes(32))} for each in requests]))


@pytest.mark.parametrize("size", [1, 255, 256, 257, 700])
def test_the_published_tiles(go: Verifier, tmp_path: Path, size: int) -> None:
    entries = [b"entry %d" % number for number in range(size)]
    records = Records(LocalDisk(tmp_path), lambda: 0)
    for at in range(0, size, 300):
        records.append(entries[at : at + 300])
    exporter = Exporter(tmp_path, 0)
    exporter.begin(nothing_signed("x"))
    exporter.catch_up()
    root = exporter.root()
    request = {
        "op": "tiles",
        "pub": str(tmp_path / "pub"),
        "size": size,
        "root": text(root),
        "entries": list(map(text, entries)),
    }
    assert go.ask([request]) == [""]
    (error,) = go.ask([{**request, "root": text(leaf_hash(b"another"))}])
    assert error
    (error,) = go.ask([{**request, "entries": [text(b"another")]}])
    assert "record 0 is another" in error
