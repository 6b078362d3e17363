"""`tlog.checkpointer`: what it signs and publishes, what it refuses, and what witnesses say to it."""

import asyncio
import base64
import re
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from structlog.testing import CapturingLogger
from tests.support.settings import sqlite_settings
from tests.support.tlog_hub import Led, checkpointing, published
from tests.support.wait import until

from rota import wiring
from rota.acts.access import make_tlog
from rota.acts.key import checkpoint_signer, need_signer
from rota.errors import DamagedError, FencedError, KeyFileError, RotaError
from rota.store.tlog import SignedRows
from rota.tasks import checkpointer
from rota.tlog.disk import LocalDisk
from rota.tlog.keys import COSIGNATURE, private_text, read_signer, signer
from rota.tlog.merkle import Frontier, consistency_proof, leaf_hash, verify_consistency
from rota.tlog.opening import read_log_checkpoint
from rota.tlog.policy import parse_policy
from rota.tlog.publication import Publication
from rota.tlog.records import Records
from rota.tlog.signing import SignedFile
from rota.tlog.tiles import tiles_of
from rota.tlog.tree import TileHashes
from rota.tlog.witness import Witness
from rota.web.witness import witness_app

WITNESS = signer("witness.example/w", b"w" * 32, COSIGNATURE)
KEY = private_text("hub.example/tlog", b"k" * 32)
LOG = read_signer(KEY).verifier


class Log:
    """One hub's log, its database, and whoever leads its checkpointer."""

    def __init__(self, data: Path, quorum: str = "none") -> None:
        self.settings = sqlite_settings(
            data, ROTA_TLOG_CHECKPOINT_KEY=KEY, ROTA_TLOG_QUORUM=quorum, ROTA_TLOG_DIRECTORY=str(data / "log")
        )
        self.directory = self.settings.tlog_directory
        self.database = wiring.make_database(self.settings)
        self.led: Led | None = None
        self.entries: list[bytes] = []

    def append(self, count: int) -> None:
        records = Records(LocalDisk(self.directory), lambda: 0, 1)
        more = [b"entry %d" % (len(self.entries) + at) for at in range(count)]
        for at in range(0, count, 100):
            records.append(more[at : at + 100])
        self.entries += more

    async def lead(self) -> None:
        await self.stop()
        self.led = await checkpointing(self.settings, self.database)

    async def stop(self) -> None:
        if self.led is not None:
            await self.led.stop()

    async def reach(self, size: int) -> None:
        assert self.led is not None
        running = self.led.running
        assert running is not None

        def there() -> bool:
            if running.done():
                running.result()
            found = published(self.directory)
            return found is not None and found.size == size

        await until(there, 20)

    async def refused(self, match: str | None = None) -> None:
        """Lead, and see that it ends with this error and that nothing more is signed."""
        before = Publication(self.directory).checkpoint()
        self.led = await checkpointing(self.settings, self.database)
        assert self.led.running is not None
        with pytest.raises(RotaError, match=match):
            await asyncio.wait_for(self.led.running, 20)
        assert Publication(self.directory).checkpoint() == before

    def root(self, size: int) -> bytes:
        frontier = Frontier()
        for entry in self.entries[:size]:
            frontier.add(leaf_hash(entry))
        return frontier.root()


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[Log]:
    made = Log(tmp_path)
    await made.database.open()
    yield made
    await made.stop()
    await made.database.close()


async def test_each_checkpoint_goes_on_from_the_last_and_has_all_its_tiles(log: Log) -> None:
    publication, last = Publication(log.directory), None
    await log.lead()
    for grow in (0, 1, 254, 1, 1, 700):
        log.append(grow)
        size = len(log.entries)
        await log.reach(size)
        data = publication.checkpoint()
        assert data is not None
        checkpoint, _ = read_log_checkpoint(data, LOG)
        assert (checkpoint.size, checkpoint.root) == (size, log.root(size))
        stored = {
            path.relative_to(log.directory / "pub")
            for path in (log.directory / "pub").rglob("*")
            if path.is_file()
        }
        assert {Path(tile.path) for tile in tiles_of(size)} <= stored
        if last is not None and last.size:
            hashes = TileHashes(size, checkpoint.root, publication.read)
            proof = consistency_proof(last.size, size, hashes)
            verify_consistency(last.size, size, proof, last.root, checkpoint.root)
        last = checkpoint
    kept = await SignedRows(log.database).last(LOG.name)
    assert kept == SignedFile(LocalDisk(log.directory)).last()


async def test_a_successor_goes_on_from_the_tiles_or_reckons_anew_without_them(log: Log) -> None:
    log.append(300)
    await log.lead()
    await log.reach(300)
    log.append(5)
    await log.lead()
    await log.reach(305)
    await log.stop()
    shutil.rmtree(log.directory / "pub")
    log.append(300)
    await log.lead()
    await log.reach(605)
    assert (log.directory / "pub" / "tile" / "entries" / "000").exists()


async def test_a_crash_between_signing_and_publishing_is_made_up_for(log: Log) -> None:
    log.append(3)
    await log.lead()
    await log.reach(3)
    await log.stop()
    (log.directory / "pub" / "checkpoint").unlink()
    await log.lead()
    await log.reach(3)


async def test_a_torn_append_is_finished_before_anything_is_signed(log: Log) -> None:
    log.append(3)
    records = log.directory / "records" / "0000000000000000"
    with records.open("ab") as file:
        file.write(records.read_bytes()[:60])
    await log.lead()
    await log.reach(3)
    await log.stop()
    assert len(list((log.directory / "torn").iterdir())) == 1


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95])
async def test_a_bit_that_flips_before_it_is_signed_keeps_everything_unsigned(log: Log, share: float) -> None:
    log.append(3)
    await log.lead()
    await log.reach(3)
    await log.stop()
    path = log.directory / "records" / "0000000000000000"
    before = path.stat().st_size
    log.append(4)
    log.append(2)
    data = bytearray(path.read_bytes())
    data[before + int((len(data) - before) * share)] ^= 4
    path.write_bytes(data)
    await log.refused()


async def test_entries_that_changed_after_they_were_signed_are_noticed_when_all_is_read_again(
    log: Log,
) -> None:
    log.append(10)
    await log.lead()
    await log.reach(10)
    await log.stop()
    other = log.directory.parent / "other"
    Records(LocalDisk(other), lambda: 0, 1).append([b"forged %d" % number for number in range(12)])
    shutil.rmtree(log.directory / "records")
    shutil.copytree(other / "records", log.directory / "records")
    (log.directory / "append.lock").unlink()
    await log.refused()
    shutil.rmtree(log.directory / "pub")
    log.directory.joinpath("pub").mkdir()
    await log.refused("not those that were signed")


async def test_an_older_copy_of_the_whole_directory_is_refused(log: Log) -> None:
    log.append(5)
    await log.lead()
    await log.reach(5)
    await log.stop()
    copy = log.directory.parent / "copy"
    shutil.copytree(log.directory, copy)
    log.append(5)
    await log.lead()
    await log.reach(10)
    await log.stop()
    shutil.rmtree(log.directory)
    copy.rename(log.directory)
    await log.refused("older copy")
    tlog = make_tlog(log.settings, log.database)
    with pytest.raises(DamagedError, match="older copy"):
        await tlog.append(b"on the older copy")
    await tlog.close()


async def test_an_empty_directory_in_place_of_a_signed_one_is_refused(log: Log) -> None:
    log.append(5)
    await log.lead()
    await log.reach(5)
    await log.stop()
    shutil.rmtree(log.directory)
    await log.refused("5 are signed")


async def test_a_published_tile_is_never_replaced_by_another(log: Log) -> None:
    log.append(3)
    await log.lead()
    await log.reach(3)
    await log.stop()
    path = log.directory / "pub" / "tile" / "0" / "000.p" / "5"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(5 * 32))
    log.append(2)
    await log.refused("is published")


async def test_a_leader_that_was_followed_by_another_signs_nothing(log: Log) -> None:
    log.append(1)
    await log.lead()
    await log.reach(1)
    old = log.led
    assert old is not None
    assert old.running is not None
    log.led = await checkpointing(log.settings, log.database)  # and the old one does not know
    log.append(1)
    with pytest.raises((FencedError, DamagedError)):
        await asyncio.wait_for(old.running, 20)
    await log.reach(2)
    kept = SignedFile(LocalDisk(log.directory))
    signed = kept.last()
    assert signed is not None
    assert signed.epoch == 2
    with pytest.raises(DamagedError, match="another process leads"):
        kept.save(type(signed)(**{**signed.__dict__, "epoch": 1, "size": 50}))
    with pytest.raises(DamagedError, match="does not go on"):
        kept.save(type(signed)(**{**signed.__dict__, "size": 1}))


async def test_another_key_for_the_same_directory_is_refused(log: Log) -> None:
    log.append(1)
    await log.lead()
    await log.reach(1)
    await log.stop()
    data = log.settings.server.data
    log.settings = sqlite_settings(
        data,
        ROTA_TLOG_CHECKPOINT_KEY=private_text("other", b"o" * 32),
        ROTA_TLOG_DIRECTORY=str(log.directory),
    )
    await log.refused("give the key that belongs to it")


async def test_a_cluster_without_a_key_signs_nothing_and_a_hub_of_one_machine_makes_one(
    tmp_path: Path,
) -> None:
    single = sqlite_settings(tmp_path / "single", ROTA_SERVER_NAME="my host")
    assert checkpoint_signer(single) is None
    made, again = checkpoint_signer(single, make=True), checkpoint_signer(single)
    assert made is not None
    assert again is not None
    assert made.verifier == again.verifier
    assert made.verifier.name.startswith("my-host/tlog/")
    path = single.keys_directory / "tlog-checkpoint"
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("PRIVATE+KEY+rubbish\n")
    with pytest.raises(KeyFileError, match="private key"):
        checkpoint_signer(single)
    cluster = sqlite_settings(
        tmp_path / "c", ROTA_DATABASE_URL="postgresql://h/rota", ROTA_DATABASE_SCHEMA="rota"
    )
    assert checkpoint_signer(cluster, make=True) is None
    with pytest.raises(KeyFileError, match="needs the key that signs the log"):
        need_signer(cluster)


SECRET = base64.urlsafe_b64encode(b"s" * 32).decode().rstrip("=")


@pytest.mark.parametrize(
    ("key", "origin", "said"),
    [
        (
            private_text("other", b"o" * 32),
            "hub.test/tlog",
            "the key of other, and tlog.origin is hub",
        ),
        (SECRET[:-1], "hub.test/tlog", "not a private key"),
    ],
)
def test_a_key_and_a_name_that_do_not_go_together(tmp_path: Path, key: str, origin: str, said: str) -> None:
    settings = sqlite_settings(tmp_path, ROTA_TLOG_CHECKPOINT_KEY=key, ROTA_TLOG_ORIGIN=origin)
    with pytest.raises(KeyFileError, match=said):
        checkpoint_signer(settings)


def test_a_bare_secret_signs_under_the_origin(tmp_path: Path) -> None:
    settings = sqlite_settings(tmp_path, ROTA_TLOG_CHECKPOINT_KEY=SECRET, ROTA_TLOG_ORIGIN="hub.test/tlog")
    assert need_signer(settings).verifier == signer("hub.test/tlog", b"s" * 32).verifier


def test_a_bare_secret_without_an_origin_has_a_name_of_its_own(tmp_path: Path) -> None:
    one, other = (
        need_signer(sqlite_settings(tmp_path, ROTA_TLOG_CHECKPOINT_KEY=key)).verifier
        for key in (SECRET, SECRET[::-1].replace("z", "A"))
    )
    assert re.fullmatch("rota/[0-9a-f]{16}", one.name)
    assert one.name != other.name
    assert signer(one.name, b"s" * 32).verifier == one


class Site:
    """A witness of ours on loopback, which may be told to misbehave."""

    def __init__(self, directory: Path) -> None:
        self.witness = Witness(WITNESS, {LOG.name: [LOG]}, LocalDisk(directory))
        self.asked: list[bytes] = []
        self.answers: list[web.Response] = []
        self.runner: web.AppRunner | None = None
        self.url = ""

    async def start(self) -> None:
        @web.middleware
        async def spy(request: web.Request, handler: object) -> web.StreamResponse:
            self.asked.append(await request.read())
            if self.answers:
                return self.answers.pop(0)
            assert callable(handler)
            answer: web.StreamResponse = await handler(request)
            return answer

        app = witness_app(self.witness)
        app.middlewares.append(spy)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}/"

    async def stop(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made = Site(tmp_path / "witness")
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def witnessed(tmp_path: Path, site: Site) -> AsyncIterator[Log]:
    policy = tmp_path / "policy"
    policy.write_text(f"log {LOG}\nwitness w {WITNESS.verifier} {site.url}\nquorum w\n")
    made = Log(tmp_path, quorum=str(policy))
    await made.database.open()
    yield made
    await made.stop()
    await made.database.close()


def agreed(log: Log) -> dict[str, int]:
    data = Publication(log.directory).checkpoint()
    policy = parse_policy(Path(log.settings.tlog.quorum).read_bytes())
    return dict(policy.agreeing(data, int(time.time()))) if data else {}


async def test_a_witness_cosigns_what_grows(witnessed: Log, site: Site) -> None:
    witnessed.append(5)
    await witnessed.lead()
    await witnessed.reach(5)
    assert "w" in agreed(witnessed)
    witnessed.append(300)
    await witnessed.reach(305)
    assert "w" in agreed(witnessed)
    await witnessed.lead()  # the next leader does not know how far the witness is, and hears it
    witnessed.append(1)
    await witnessed.reach(306)
    assert [body.partition(b"\n")[0] for body in site.asked] == [b"old 0", b"old 5", b"old 0", b"old 305"]


async def test_without_its_quorum_nothing_is_published_and_with_it_again_it_is(
    witnessed: Log, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    witnessed.append(5)
    await witnessed.lead()
    await witnessed.reach(5)
    said = CapturingLogger()
    monkeypatch.setattr(checkpointer, "log", said)
    site.answers = [web.Response(status=503), web.Response(status=503)]
    witnessed.append(5)
    await until(lambda: not site.answers)
    assert site.asked[-1].startswith(b"old 5\n")
    assert published(witnessed.directory) is not None
    await witnessed.reach(10)
    assert "w" in agreed(witnessed)
    assert [call.args for call in said.calls] == [
        ("checkpoints not published",),
        ("checkpoints published again",),
    ]


def conflict(body: str, kind: str = "text/x.tlog.size") -> web.Response:
    return web.Response(status=409, body=body.encode(), headers={"Content-Type": kind})


async def test_a_witness_that_lies_about_its_size_is_not_followed_for_ever(
    witnessed: Log, site: Site
) -> None:
    witnessed.append(5)
    await witnessed.lead()
    await witnessed.reach(5)
    site.answers = [
        *(conflict("3\n") if number % 2 else conflict("4\n") for number in range(4)),
        conflict("5\n"),
        conflict("999999999999999999\n"),
        conflict("-1\n"),
        conflict("5"),
        conflict("3\n", "text/plain"),
        web.Response(status=200, text="rubbish\n"),
        web.Response(status=200, text="— witness.example/w AAAAAAAA\n"),
        web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}),
        web.Response(status=422, text="no\n"),
    ]
    witnessed.append(1)
    await witnessed.reach(6)
    assert site.answers == []


async def test_a_witness_that_has_seen_another_tree_stops_the_publishing(witnessed: Log, site: Site) -> None:
    forked = Log(witnessed.directory.parent / "forked", quorum=witnessed.settings.tlog.quorum)
    await forked.database.open()
    forked.entries = [b"other"]
    forked.append(7)
    forked.entries = forked.entries[1:]
    await forked.lead()
    await forked.reach(7)
    await forked.stop()
    await forked.database.close()
    witnessed.append(9)
    asked = len(site.asked)
    await witnessed.lead()
    await until(lambda: len(site.asked) >= asked + 4, 20)
    assert published(witnessed.directory) is None
