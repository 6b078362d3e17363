"""The log over HTTP and by its commands: a hub on SQLite, its entries, and tools that know only its key."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.access import bearer
from tests.support.postgres import free_port
from tests.support.process import Hub, run
from tests.support.raw import ask
from tests.support.tlog_hub import published
from tests.support.wait import wait_for

from rota.access.scopes import Scope
from rota.acts.act import Act, read_act
from rota.tlog.disk import LocalDisk
from rota.tlog.keys import private_text, read_signer, signer
from rota.tlog.merkle import EMPTY_ROOT, leaf_hash
from rota.tlog.notes import parse_note
from rota.tlog.opening import read_log_checkpoint
from rota.tlog.policy import Policy
from rota.tlog.proof import parse_proof, verify_proof
from rota.tlog.records import Records
from rota.tlog.tiles import entries_of, parse_path, tiles_of
from rota.tlog.tree import TileHashes

if TYPE_CHECKING:
    from subprocess import CompletedProcess

TOKEN = "a-token-for-entries"
AUTHORISED = f"Authorization: Bearer {TOKEN}"
KEY = private_text("hub.example/tlog", b"k" * 32)
LOG = read_signer(KEY).verifier
HTML = "<img src=x onerror=alert(1)>{{7*7}}"
COUNT = 300
ENTRIES = [
    bytes(
        Act(kind="test.made", actor="tests", subject=f"thing {number}", details={"note": HTML, "n": number})
    )
    for number in range(COUNT - 1)
] + [b"\xff<script>no act at all</script>"]
FOREVER = "max-age=31536000, immutable"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a data directory with a log that nobody has signed yet."""
    place = tmp_path_factory.mktemp("hub") / "data"
    Records(LocalDisk(place / "tlog"), lambda: 0, 1).append(ENTRIES)
    return place


@pytest.fixture(scope="module")
def environ(data: Path) -> dict[str, str]:
    return {
        "ROTA_SERVER_DATA": str(data),
        "ROTA_TLOG_CHECKPOINT_KEY": KEY,
        "ROTA_MAINTENANCE_SCHEDULE": "",
        "ROTA_BACKUPS_SCHEDULE": "",
    }


@pytest.fixture(scope="module")
def hub(data: Path, environ: dict[str, str]) -> Iterator[Hub]:
    process = Hub.start(data.parent / "log", environ, port=free_port()).wait()
    assert bearer(environ, Scope.TLOG_READ, secret=TOKEN) == AUTHORISED
    wait_for(lambda: (found := published(data / "tlog")) is not None and found.size == COUNT, 20)
    yield process
    process.kill()


def test_the_checkpoint_is_for_everyone_and_for_a_moment(port: int) -> None:
    answer = ask(port, "GET", "/log/checkpoint")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=2"
    checkpoint, _ = read_log_checkpoint(answer.body, LOG)
    assert checkpoint.size == COUNT
    assert ask(port, "HEAD", "/log/checkpoint").body == b""


def test_every_file_that_the_checkpoint_implies_is_there_and_never_changes(port: int) -> None:
    checkpoint, _ = read_log_checkpoint(ask(port, "GET", "/log/checkpoint").body, LOG)
    found: list[bytes] = []
    for tile in tiles_of(COUNT):
        answer = ask(port, "GET", f"/log/{tile.path}", AUTHORISED)
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/octet-stream"
        reach = "private" if tile.level is None else "public"
        assert answer.headers["cache-control"] == f"{reach}, {FOREVER}"
        if tile.level is None:
            found += entries_of(answer.body, tile.width)
        else:
            assert len(answer.body) == 32 * tile.width
    assert found == ENTRIES
    hashes = TileHashes(
        COUNT, checkpoint.root, lambda tile: ask(port, "GET", f"/log/{tile.path}").body
    )  # hashes need no token
    assert [hashes(0, index) for index in range(COUNT)] == [leaf_hash(entry) for entry in ENTRIES]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("tile/0/000.p/255", 200),  # it is full by now, and what was published stays readable
        ("tile/0/001.p/44", 200),
        ("tile/0/001.p/43", 404),  # no checkpoint of that size was published
        ("tile/0/001.p/45", 404),
        ("tile/0/001", 404),
        ("tile/0/002", 404),
        ("tile/2/000.p/1", 404),
        ("tile/0/00", 404),
        ("tile/64/000", 404),
        ("tile/0/..%2f..%2f..%2frecords", 404),
        ("tile/0/../../../records/0000000000000000", 404),
        ("tile/entries/001.p/44", 401),
        ("tile/entries/000", 401),
        ("entries/0", 401),
        ("entries/0/proof", 401),
        ("entries/0/bytes", 401),
        ("records/0000000000000000", 404),
    ],
)
def test_what_strangers_are_given(port: int, path: str, status: int) -> None:
    answer = ask(port, "GET", f"/log/{path}")
    assert answer.status == status
    if status == 200:
        assert len(answer.body) == 32 * parse_path(path).width
    else:
        assert "immutable" not in answer.headers.get("cache-control", "no-store")
        assert b"test.made" not in answer.body
    wrong = ask(port, "GET", f"/log/{path}", "Authorization: Bearer wrong")
    assert wrong.status == status


@pytest.mark.parametrize("index", [0, 1, 255, 256, 298, 299])
def test_an_entrys_proof_convinces_who_knows_only_the_key(port: int, index: int) -> None:
    entry = ask(port, "GET", f"/log/entries/{index}/bytes", AUTHORISED)
    assert (entry.status, entry.body) == (200, ENTRIES[index])
    proof = ask(port, "GET", f"/log/entries/{index}/proof", AUTHORISED)
    assert proof.headers["cache-control"] == "no-store"
    assert f"{index}.tlog-proof" in proof.headers["content-disposition"]
    assert verify_proof(parse_proof(proof.body), entry.body, Policy([LOG]), 2**31).size == COUNT


def test_an_entrys_page_shows_it_as_text(port: int) -> None:
    page = ask(port, "GET", "/log/entries/7", AUTHORISED)
    assert page.status == 200
    assert page.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "thing 7" in page.text
    assert "<img" not in page.text
    assert "{{7*7}}" in page.text
    assert "hub.example/tlog" in page.text
    odd = ask(port, "GET", f"/log/entries/{COUNT - 1}", AUTHORISED)
    assert "&lt;script&gt;no act at all" in odd.text


@pytest.mark.parametrize("index", ["300", "-1", "007", "x", "+1", "1_0", "99999999999999999999", "%D9%A1"])
def test_an_entry_that_is_not_there(port: int, index: str) -> None:
    for below in ("", "/proof", "/bytes"):
        answer = ask(port, "GET", f"/log/entries/{index}{below}", AUTHORISED)
        assert answer.status == 404
        assert answer.headers["cache-control"] == "no-store"


def command(environ: dict[str, str], *argv: str) -> "CompletedProcess[str]":
    return run(["tlog", *argv], environ)


def test_the_commands_read_the_files_beside_the_hub(
    hub: Hub, environ: dict[str, str], tmp_path: Path
) -> None:
    assert hub.port
    head = command(environ, "head").stdout
    assert head.startswith(f"{COUNT} entries, root ")
    assert f"key {LOG}" in head
    assert parse_note(head.partition("\n\n")[2].encode()).text.startswith("hub.example/tlog\n300\n")
    shown = command(environ, "show", "5")
    assert read_act(shown.stdout.encode()).subject == "thing 5"
    (tmp_path / "entry").write_text(shown.stdout)
    (tmp_path / "proof").write_text(command(environ, "prove", "5").stdout)
    files = ["--proof", str(tmp_path / "proof"), "--entry", str(tmp_path / "entry")]
    good = "In the log hub.example/tlog: proved against its checkpoint of 300 entries.\n"
    assert command(environ, "verify", *files).stdout == good
    assert command({}, "verify", *files, "--key", str(LOG)).stdout == good
    (tmp_path / "policy").write_text(f"log {LOG}\nquorum none\n")
    assert command({}, "verify", *files, "--policy", str(tmp_path / "policy")).stdout == good
    other = signer("hub.example/tlog", b"o" * 32).verifier
    refused = command({}, "verify", *files, "--key", str(other))
    assert (refused.returncode, "no key that is known" in refused.stderr) == (1, True)
    (tmp_path / "entry").write_text(shown.stdout.replace("thing 5", "thing 6"))
    assert "does not lead to the root" in command({}, "verify", *files, "--key", str(LOG)).stderr
    absent = command(environ, "show", "300")
    assert (absent.returncode, "not in the checkpoint" in absent.stderr) == (1, True)


def test_fsck_finds_what_was_changed_and_changes_nothing(
    data: Path, environ: dict[str, str], hub: Hub, tmp_path: Path
) -> None:
    assert hub.port
    # A copy: the hub that runs would publish anew what is missing.
    data = Path(shutil.copytree(data, tmp_path / "data"))
    environ = {**environ, "ROTA_SERVER_DATA": str(data)}
    good = command(environ, "fsck")
    assert (good.returncode, good.stderr) == (0, "")
    assert re.fullmatch(
        r"300 entries, root \S+; 5 published files compared\nEverything fits\.\n", good.stdout
    )
    assert "the signatures were not checked" not in good.stdout
    other = signer("hub.example/tlog", b"o" * 32).verifier
    assert "no key that is known" in command(environ, "fsck", "--key", str(other)).stderr
    tlog = data / "tlog"
    for path, said in (
        ("records/0000000000000000", ""),
        ("pub/tile/entries/000", "is not what the records say"),
        ("pub/tile/0/000", "is not what the records say"),
        ("pub/tile/0/001.p/44", "is not what the records say"),
        ("pub/tile/1/000.p/1", "is not what the records say"),
        ("pub/checkpoint", "pub/checkpoint"),
    ):
        file = tlog / path
        before = file.read_bytes()
        file.chmod(0o600)
        try:
            file.write_bytes(
                before[:90] + bytes([before[90] ^ 1]) + before[91:]
                if len(before) > 90
                else b"x" * len(before)
            )
            broken = command(environ, "fsck")
            assert broken.returncode == 1, path
            assert said in broken.stderr
            file.unlink()
            assert command(environ, "fsck").returncode == 1 or path == "pub/checkpoint"
        finally:
            file.write_bytes(before)
    (tlog / "pub" / "tile" / "0" / "002").write_bytes(bytes(8192))
    try:
        assert "belongs to no tree of 300 entries" in command(environ, "fsck").stderr
    finally:
        (tlog / "pub" / "tile" / "0" / "002").unlink()
    with (tlog / "records" / "0000000000000000").open("ab") as file_:
        file_.write(b"RTL1")
    torn = command(environ, "fsck")
    assert (torn.returncode, "4 bytes at the end" in torn.stdout) == (0, True)


def test_an_empty_log(tmp_path: Path) -> None:
    environ = {"ROTA_SERVER_DATA": str(tmp_path), "ROTA_TLOG_CHECKPOINT_KEY": KEY}
    assert "Nothing is published yet." in command(environ, "head").stdout
    assert command(environ, "fsck").stdout.startswith("0 entries")
    assert "nothing is signed yet" in command(environ, "show", "0").stderr
    assert EMPTY_ROOT
    made = command(environ, "key", "hub.example/other")
    assert read_signer(made.stdout.strip()).verifier.name == "hub.example/other"


def test_without_a_token_no_entry_is_served(tmp_path: Path, hubs: list[Hub]) -> None:
    port = free_port()
    hubs.append(Hub.start(tmp_path / "log", {"ROTA_SERVER_DATA": str(tmp_path / "data")}, port=port).wait())
    wait_for(lambda: ask(port, "GET", "/log/checkpoint").status == 200, 20)
    for path in ("/log/entries/0", "/log/tile/entries/000.p/1"):
        answer = ask(port, "GET", path, AUTHORISED)
        assert (answer.status, answer.headers["cache-control"]) == (401, "no-store")


def test_a_log_that_is_an_older_copy_is_told_of_by_health(tmp_path: Path, hubs: list[Hub]) -> None:
    data = tmp_path / "data"
    environ = {"ROTA_SERVER_DATA": str(data), "ROTA_TLOG_CHECKPOINT_KEY": KEY}
    log = Records(LocalDisk(data / "tlog"), lambda: 0, 1)
    log.append([b"one"])
    shutil.copytree(data / "tlog", tmp_path / "older")
    log.append([b"two"])
    first = Hub.start(tmp_path / "log", environ, port=free_port()).wait()
    hubs.append(first)
    wait_for(lambda: (found := published(data / "tlog")) is not None and found.size == 2, 20)
    first.stop()
    shutil.rmtree(data / "tlog")
    (tmp_path / "older").rename(data / "tlog")
    hub = Hub.start(tmp_path / "log", environ, port=free_port()).wait()
    hubs.append(hub)
    said = wait_for(lambda: hub.health().get("failing") or {}, 20)
    assert "Nothing is signed" in said["tlog.checkpointer"]


def test_health_says_how_much_of_the_log_is_published(hub: Hub) -> None:
    wait_for(lambda: hub.health()["tlog"].get("published") == hub.health()["tlog"]["size"] >= COUNT, 20)
