"""Two web processes share one log: whoever leads is killed, and the other signs on from the same tree."""

from pathlib import Path

from tests.support.postgres import Server, free_port
from tests.support.process import Hub
from tests.support.raw import ask
from tests.support.settings import postgres_environ, postgres_settings
from tests.support.tlog_files import entries_in
from tests.support.wait import until

from rota import wiring
from rota.store.database import Transaction
from rota.store.tlog import Outbox
from rota.tlog.checkpoint import Checkpoint
from rota.tlog.keys import private_text, read_signer
from rota.tlog.merkle import consistency_proof, verify_consistency
from rota.tlog.opening import read_log_checkpoint
from rota.tlog.tree import TileHashes

KEY = private_text("hub.example/tlog", b"k" * 32)
LOG = read_signer(KEY).verifier


def served(hub: Hub) -> Checkpoint | None:
    """Return the checkpoint that a process serves."""
    try:
        answer = ask(hub.port or 0, "GET", "/log/checkpoint")
    except OSError:
        return None
    return read_log_checkpoint(answer.body, LOG)[0] if answer.status == 200 else None


async def test_the_log_goes_on_when_the_process_that_signs_it_is_killed(
    tmp_path: Path, postgres: Server, hubs: list[Hub]
) -> None:
    schema = postgres.new_schema()
    shared = {
        "ROTA_SERVER_ROLES": "web",
        "ROTA_TLOG_CHECKPOINT_KEY": KEY,
        "ROTA_TLOG_DIRECTORY": str(tmp_path / "shared"),
    }
    pair = []
    for name in "ab":
        environ = {**postgres_environ(tmp_path / name, postgres, schema), **shared, "ROTA_SERVER_NAME": name}
        pair.append(Hub.start(tmp_path / f"{name}.log", environ, port=free_port()))
        hubs.append(pair[-1])
        pair[-1].wait()
    database = wiring.make_database(postgres_settings(tmp_path / "test", postgres, schema))
    await database.open()
    decided = 0

    async def decide(count: int) -> None:
        nonlocal decided
        for _ in range(count):
            await database.write(put)
            decided += 1

    async def put(tx: Transaction) -> int:
        return await Outbox.add(tx, b"act %d" % decided)

    async def reached(hub: Hub) -> Checkpoint:
        await until(lambda: (found := served(hub)) is not None and found.size == decided, 30)
        found = served(hub)
        assert found is not None
        return found

    await decide(20)
    first = await reached(pair[0])
    assert await reached(pair[1]) == first, "both serve the same log"
    leader = next(hub for hub in pair if "tlog.checkpointer" in hub.leading())
    other = next(hub for hub in pair if hub is not leader)
    await decide(20)
    leader.kill()
    await decide(20)
    second = await reached(other)
    assert "tlog.checkpointer" in other.leading()
    hashes = TileHashes(
        second.size, second.root, lambda tile: ask(other.port or 0, "GET", f"/log/{tile.path}").body
    )
    proof = consistency_proof(first.size, second.size, hashes)
    verify_consistency(first.size, second.size, proof, first.root, second.root)
    assert entries_in(tmp_path / "shared") == [b"act %d" % number for number in range(decided)]
    await database.close()
