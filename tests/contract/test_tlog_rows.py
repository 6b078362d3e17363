"""What the database keeps of the log, on both kinds of database."""

from dataclasses import replace

import pytest
from tests.support.tlog_hub import lead

from rota.errors import DamagedError, FencedError
from rota.store.database import Database, Transaction
from rota.store.tlog import Outbox, SignedRows
from rota.tlog.frames import START, Position
from rota.tlog.signing import Signed

SIGNED = Signed("hub.example/tlog", 1, 1, 8, "ab" * 32, "0:100:8", "a note\n")


async def test_what_was_signed_goes_forward_only(database: Database) -> None:
    rows, fence = SignedRows(database), await lead(database)
    assert await rows.last(SIGNED.origin) is None
    assert await rows.ground(SIGNED.origin) == (1, 0)
    await rows.save(fence, SIGNED)
    await rows.save(fence, replace(SIGNED, epoch=2))
    await rows.save(fence, replace(SIGNED, size=9, root="cd" * 32))
    for wrong in (SIGNED, replace(SIGNED, size=9), replace(SIGNED, size=0)):
        with pytest.raises(DamagedError, match="older copy"):
            await rows.save(fence, wrong)
    assert await rows.last(SIGNED.origin) == replace(SIGNED, size=9, root="cd" * 32)
    await rows.save(fence, replace(SIGNED, origin="another", size=1))
    assert await rows.ground(SIGNED.origin) == (1, 9)


async def test_an_old_leader_saves_nothing(database: Database) -> None:
    rows, old = SignedRows(database), await lead(database)
    await rows.save(old, SIGNED)
    await lead(database)
    with pytest.raises(FencedError):
        await rows.save(old, replace(SIGNED, size=10))


async def put_out(database: Database, entry: bytes) -> int:
    async def work(tx: Transaction) -> int:
        return await Outbox.add(tx, entry)

    return await database.write(work)


async def test_acts_wait_in_order_and_are_indexed_once(database: Database) -> None:
    outbox, fence = Outbox(database), await lead(database)
    ids = [await put_out(database, b"act %d \x00\xff" % number) for number in range(5)]
    assert [each.entry for each in await outbox.waiting(3)] == [
        b"act %d \x00\xff" % number for number in range(3)
    ]
    assert [each.since for each in await outbox.waiting(9)] == [None] * 5
    await outbox.begin(ids[:2], Position(0, 7, 1), fence)
    await outbox.begin(ids, START, fence)
    assert [str(each.since) for each in await outbox.waiting(9)] == ["0:7:1"] * 2 + ["0:0:0"] * 3
    assert await outbox.index_of(ids[0]) is None
    await outbox.indexed([(ids[0], 40), (ids[1], 41)], fence)
    await outbox.indexed([(ids[0], 99)], fence)
    assert [await outbox.index_of(each) for each in ids] == [40, 41, None, None, None]
    assert [each.id for each in await outbox.waiting(9)] == ids[2:]


async def test_an_act_of_a_transaction_that_fails_is_not_put_out(database: Database) -> None:
    async def work(tx: Transaction) -> None:
        await Outbox.add(tx, b"never")
        raise DamagedError("the decision failed")

    with pytest.raises(DamagedError):
        await database.write(work)
    assert await Outbox(database).waiting(9) == []


async def test_acts_that_are_in_the_log_are_forgotten_in_time_and_no_others(database: Database) -> None:
    outbox, fence = Outbox(database), await lead(database)
    ids = [await put_out(database, b"act %d" % number) for number in range(3)]
    await outbox.indexed([(ids[0], 0), (ids[1], 1)], fence)
    assert await outbox.prune(fence, 1) == 0
    assert await outbox.prune(fence, -1) == 2, "as if two days had passed"
    assert [row.id for row in await outbox.waiting(9)] == [ids[2]]
