"""`rota witness serve` as anyone meets it, and what a witness keeps, whatever happens to it."""

import asyncio
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from tests.support.postgres import free_port
from tests.support.process import ROTA, environment, run
from tests.support.wait import wait_for

from rota.errors import DamagedError
from rota.tlog.addcheckpoint import Refusal, Request, make_request
from rota.tlog.checkpoint import Checkpoint
from rota.tlog.cosignature import check_cosignature
from rota.tlog.disk import LocalDisk
from rota.tlog.keys import COSIGNATURE, private_text, read_signer, signer
from rota.tlog.merkle import consistency_proof, leaf_hash, parent_hash, range_root
from rota.tlog.notes import Note, Signature, parse_note, parse_signatures, sign_note
from rota.tlog.opening import open_note
from rota.tlog.slots import SLOT
from rota.tlog.witness import Witness

LOG = signer("hub.example/tlog", b"l" * 32)
KEY = private_text("witness.example/w", b"w" * 32, COSIGNATURE)
WITNESS = read_signer(KEY)
LEVELS = [[leaf_hash(b"leaf %d" % number) for number in range(64)]]
while len(LEVELS[-1]) > 1:
    LEVELS.append([parent_hash(*LEVELS[-1][at : at + 2]) for at in range(0, len(LEVELS[-1]), 2)])


def asked(old: int, new: int, *extra: Signature) -> Request:
    def read(level: int, index: int) -> bytes:
        return LEVELS[level][index]

    signed = sign_note(str(Checkpoint(LOG.verifier.name, new, range_root(0, new, read))), [LOG])
    note = Note(signed.text, (*extra, *signed.signatures))
    return make_request(old, consistency_proof(old, new, read), note)


def witness(directory: Path, now: float = 1_700_000_000) -> Witness:
    return Witness(WITNESS, {LOG.verifier.name: [LOG.verifier]}, LocalDisk(directory), lambda: now)


def cosigned(answer: Signature | Refusal, request: Request) -> int:
    assert isinstance(answer, Signature), answer
    return check_cosignature(WITNESS.verifier, request.note.text, answer).time


def refused(answer: Signature | Refusal) -> tuple[int, int | None]:
    assert isinstance(answer, Refusal)
    return int(answer.status), answer.size


DIGEST = sha256(LOG.verifier.name.encode()).hexdigest()


def test_what_it_saw_outlives_it(tmp_path: Path) -> None:
    assert witness(tmp_path).checkpoint(DIGEST) is None
    first = asked(0, 8)
    assert cosigned(witness(tmp_path).add_checkpoint(first), first) == 1_700_000_000
    assert refused(witness(tmp_path).add_checkpoint(first)) == (409, 8)
    again = asked(8, 8)
    assert cosigned(witness(tmp_path, 1_700_000_009).add_checkpoint(again), again) == 1_700_000_009
    on = asked(8, 20)
    cosigned(witness(tmp_path, 1_700_000_010).add_checkpoint(on), on)
    kept = witness(tmp_path).checkpoint(DIGEST)
    assert kept is not None
    assert len(open_note(parse_note(kept), [LOG.verifier, WITNESS.verifier]).verified) == 2
    assert witness(tmp_path).checkpoint("0" * 64) is None


def test_a_clock_that_went_back_cosigns_nothing(tmp_path: Path) -> None:
    witness(tmp_path).add_checkpoint(asked(0, 8))
    assert refused(witness(tmp_path, 1_699_999_999).add_checkpoint(asked(8, 20))) == (503, None)
    assert refused(witness(tmp_path, 0).add_checkpoint(asked(8, 20))) == (503, None)


def test_a_line_in_its_own_name_that_came_with_the_request_is_not_kept(tmp_path: Path) -> None:
    fake = Signature(WITNESS.verifier.name, WITNESS.verifier.id, bytes(72))
    other = Signature("somebody", b"abcd", bytes(64))
    request = asked(0, 8, fake, other)
    cosigned(witness(tmp_path).add_checkpoint(request), request)
    kept = witness(tmp_path).checkpoint(DIGEST)
    assert kept is not None
    assert len(parse_note(kept).signatures) == 2
    assert len(open_note(parse_note(kept), [LOG.verifier, WITNESS.verifier]).verified) == 2
    cosigned(witness(tmp_path).add_checkpoint(asked(8, 20)), asked(8, 20))


def test_what_cannot_be_kept_is_not_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    witness(tmp_path).add_checkpoint(asked(0, 8))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", full)
        with pytest.raises(OSError, match="No space"):
            witness(tmp_path).add_checkpoint(asked(8, 20))
    path = tmp_path / "witnessed" / DIGEST
    path.write_bytes(bytes(SLOT + 99))
    with pytest.raises(DamagedError):
        witness(tmp_path).add_checkpoint(asked(0, 20))


async def test_of_two_that_come_at_once_the_second_is_told_what_the_first_said(tmp_path: Path) -> None:
    witness(tmp_path).add_checkpoint(asked(0, 8))
    answers = await asyncio.gather(
        *(asyncio.to_thread(witness(tmp_path).add_checkpoint, asked(8, size)) for size in range(9, 29))
    )
    assert sum(isinstance(each, Signature) for each in answers) == 1
    assert {refused(each)[0] for each in answers if isinstance(each, Refusal)} == {409}


@pytest.fixture
def served(tmp_path: Path) -> Iterator["Served"]:
    started = Served(tmp_path)
    started.start()
    yield started
    started.process.kill()
    started.process.wait(timeout=10)


class Served:
    """`rota witness serve` in a process of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.port = free_port()
        self.process: subprocess.Popen[bytes]
        (place / "key").write_text(KEY + "\n")
        (place / "key").chmod(0o600)

    def start(self) -> None:
        options = ["--key", str(self.place / "key"), "--log", str(LOG.verifier)]
        options += ["--directory", str(self.place / "kept"), "--address", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen([*ROTA, "witness", "serve", *options], env=environment({}))
        wait_for(self.up, 20)

    def up(self) -> bool:
        try:
            return self.get("/nothing")[0] == 404
        except OSError:
            return False

    def get(self, path: str, body: bytes | None = None) -> tuple[int, str, bytes]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=body)
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - our own http://
                return answer.status, answer.headers["Content-Type"], answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read()

    def add(self, body: bytes) -> tuple[int, str, bytes]:
        return self.get("/add-checkpoint", body)


def test_its_answers_over_http(served: Served) -> None:
    assert served.get(f"/{DIGEST}/checkpoint")[0] == 404
    status, _, body = served.add(bytes(asked(0, 8)))
    assert status == 200
    (line,) = parse_signatures(body.decode())
    check_cosignature(WITNESS.verifier, asked(0, 8).note.text, line)
    assert served.add(bytes(asked(0, 8))) == (409, "text/x.tlog.size", b"8\n")
    good = bytes(asked(8, 20))
    for body, wanted in (
        (good.replace(b"old 8", b"old 08"), 400),
        (good.replace(b"\n", b"\r\n"), 400),
        (b"", 400),
        (b"x" * 200_000, 413),
        (good.replace(b"hub.example/tlog\n20", b"another.example/tlog\n20"), 404),
        (good.replace(b"hub.example/tlog\n20", b"hub.example/tlog\n21"), 403),
        (re.sub(rb"old 8\n[^\n]+\n", b"old 8\n", good), 422),
    ):
        assert served.add(body)[0] == wanted, body[:80]
    served.process.send_signal(signal.SIGKILL)
    served.process.wait(timeout=10)
    served.start()
    assert served.add(bytes(asked(0, 8)))[2] == b"8\n"
    assert served.add(good)[0] == 200
    status, kind, body = served.get(f"/{DIGEST}/checkpoint")
    assert (status, kind) == (200, "text/plain; charset=utf-8")
    assert len(open_note(parse_note(body), [LOG.verifier, WITNESS.verifier]).verified) == 2
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(timeout=10) == 0


def test_what_it_does_not_start_with(tmp_path: Path) -> None:
    served = Served(tmp_path)
    key = ["--key", str(tmp_path / "key"), "--directory", str(tmp_path)]
    assert "not a key" in run(["witness", "serve", *key, "--log", "rubbish"]).stderr
    assert (
        "not HOST:PORT"
        in run(["witness", "serve", *key, "--log", str(LOG.verifier), "--address", "x"]).stderr
    )
    (tmp_path / "key").write_text(private_text("hub.example/tlog", b"l" * 32))
    done = run(["witness", "serve", *key, "--log", str(LOG.verifier)])
    assert (done.returncode, "makes one that cosigns" in done.stderr) == (78, True)
    (tmp_path / "key").chmod(0o644)
    assert "chmod 0600" in run(["witness", "serve", *key, "--log", str(LOG.verifier)]).stderr
    made = run(["witness", "key", "a.example/w"])
    assert read_signer(made.stdout.strip()).verifier.kind == COSIGNATURE
    assert str(read_signer(made.stdout.strip()).verifier) in made.stderr
    assert served.port
