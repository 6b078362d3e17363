"""The `Queue` seam and what people do with its jobs, on SQLite and on PostgreSQL."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from tests.support.postgres import Server
from tests.support.sql import end_leases, run
from tests.support.wait import until

from rota.coordination.bus.events import Event, JobWaiting, Live, Topic
from rota.coordination.bus.local import LocalBus
from rota.coordination.local import raise_epochs
from rota.coordination.queue.job import Claimed, NewJob, PayloadError, PutBack, decode
from rota.coordination.queue.kinds import Job, Kind, Kinds
from rota.coordination.queue.queue import NUDGE, Queue, Settled, TableQueue
from rota.settings import Settings
from rota.store import jobs as store
from rota.store.database import Database, Transaction
from rota.store.jobs import Jobs, State
from rota.store.migrations import program_schema


async def nothing(_: Job) -> None:
    pass


KINDS = Kinds.of([Kind("mail", nothing), Kind("brief", nothing, lease=0.05)], primary=False)


@pytest.fixture
def bus() -> LocalBus:
    return LocalBus()


@pytest.fixture
def queue(database: Database, bus: LocalBus) -> Queue:
    return TableQueue(database, bus)


@pytest.fixture
def jobs(database: Database) -> Jobs:
    return Jobs(database)


# By whether the database is SQLite: a job that died long ago, as far as its row says.
LONG_AGO = {
    True: "UPDATE work_queue SET run_after = run_after - 40 * 86400000000 WHERE id = ?",
    False: "UPDATE work_queue SET run_after = run_after - interval '40 days' WHERE id = ?",
}


async def put(
    queue: Queue, database: Database, *each: NewJob | str, payload: Mapping[str, object] | None = None
) -> list[int]:
    new = [NewJob(kind=job, payload=payload or {}) if isinstance(job, str) else job for job in each]
    return await database.write(lambda tx: queue.enqueue(tx, *new))


async def claim(queue: Queue, worker: str = "a", room: int = 10, kinds: Kinds = KINDS) -> list[Claimed]:
    return (await queue.turn(worker, Settled(), kinds, room)).claimed


async def settle(
    queue: Queue, worker: str, done: list[Claimed] | None = None, back: list[PutBack] | None = None
) -> int:
    """Return how many of these the worker no longer held."""
    return (await queue.turn(worker, Settled(done or [], back or []), KINDS, 0)).lost


async def test_what_is_enqueued_is_claimed_as_it_was(queue: Queue, database: Database) -> None:
    payload = {
        "text": "ü \U0001d11e \u2028 '\"\\",
        "number": 12345678901234567890,
        "none": None,
        "list": [1.5],
    }
    ids = await put(queue, database, "mail", payload=payload)
    (job,) = await claim(queue)
    assert (job.id, job.kind, job.attempts) == (ids[0], "mail", 1)
    assert decode(job.payload) == payload


async def test_a_claimed_job_is_nobody_elses(queue: Queue, database: Database) -> None:
    await put(queue, database, "mail")
    assert await claim(queue)
    assert await claim(queue, "b") == []
    assert await claim(queue, "a") == []


async def test_a_claim_takes_no_more_than_there_is_room_for_and_the_oldest_first(
    queue: Queue, database: Database
) -> None:
    ids = await put(queue, database, *["mail"] * 30)
    assert [job.id for job in await claim(queue, room=7)] == ids[:7]
    assert [job.id for job in await claim(queue, "b", room=50)] == ids[7:]


async def test_of_many_workers_at_once_each_job_goes_to_one(queue: Queue, database: Database) -> None:
    ids = await put(queue, database, *["mail"] * 300)
    taken: list[int] = []

    async def work(worker: str) -> None:
        while claimed := await claim(queue, worker, room=7):
            taken.extend(job.id for job in claimed)
            assert await settle(queue, worker, done=claimed) == 0

    await asyncio.gather(*(work(name) for name in "abcdefgh"))
    assert sorted(taken) == ids


async def test_a_job_for_later_is_not_claimed_before(queue: Queue, database: Database, jobs: Jobs) -> None:
    await put(queue, database, NewJob(kind="mail", payload={}, delay=3600))
    assert await claim(queue) == []
    assert [(count.state, count.jobs) for count in await jobs.counts()] == [(State.LATER, 1)]


async def test_a_finished_job_is_gone_and_finishing_it_again_changes_nothing(
    queue: Queue, database: Database, jobs: Jobs
) -> None:
    await put(queue, database, "mail", "mail")
    claimed = await claim(queue)
    assert await settle(queue, "a", done=claimed) == 0
    assert await settle(queue, "a", done=claimed) == 2
    assert await jobs.list() == []


async def test_a_turn_settles_and_claims_in_one(queue: Queue, database: Database) -> None:
    first, second = await put(queue, database, "mail", "mail")
    claimed = await claim(queue, room=1)
    turn = await queue.turn("a", Settled(done=claimed), KINDS, 1)
    assert ([job.id for job in claimed], [job.id for job in turn.claimed], turn.lost) == (
        [first],
        [second],
        0,
    )


async def test_a_failed_job_waits_with_its_error(queue: Queue, database: Database, jobs: Jobs) -> None:
    (job,) = await put(queue, database, "mail")
    (claimed,) = await claim(queue)
    assert await settle(queue, "a", back=[PutBack(job, claimed.attempts, "no route", 30.0)]) == 0
    assert await claim(queue) == []
    record = await jobs.find(job)
    assert record is not None
    assert (record.state, record.attempts, record.error) == (State.LATER, 1, "no route")
    assert 29 < (record.run_after - record.enqueued_at).total_seconds() < 40


async def test_a_job_whose_attempt_did_not_begin_has_it_back(
    queue: Queue, database: Database, jobs: Jobs
) -> None:
    await put(queue, database, "mail")
    (claimed,) = await claim(queue)
    await settle(queue, "a", back=[PutBack(claimed.id, claimed.attempts, counted=False)])
    assert [again.attempts for again in await claim(queue, "b")] == [1]
    assert [(count.state, count.jobs) for count in await jobs.counts()] == [(State.RUNNING, 1)]


async def test_a_job_whose_lease_ran_out_is_claimed_again_and_its_first_worker_is_refused(
    queue: Queue, database: Database, settings: Settings, jobs: Jobs
) -> None:
    await put(queue, database, "mail")
    old = await claim(queue, "a")
    end_leases(settings)
    new = await claim(queue, "b")
    assert [job.attempts for job in new] == [2]
    assert await settle(queue, "a", done=old) == 1
    assert await settle(queue, "a", back=[PutBack(old[0].id, 1, "late", 0.0, dead=True)]) == 1
    assert [record.state for record in await jobs.list()] == [State.RUNNING]
    assert await settle(queue, "b", done=new) == 0
    assert await jobs.list() == []


async def test_a_worker_that_claims_its_own_lost_job_cannot_finish_it_under_the_old_attempt(
    queue: Queue, database: Database, settings: Settings
) -> None:
    await put(queue, database, "mail")
    old = await claim(queue)
    end_leases(settings)
    new = await claim(queue)
    assert await settle(queue, "a", done=old) == 1
    assert await settle(queue, "a", done=new) == 0


async def test_a_kind_may_have_a_lease_of_its_own(queue: Queue, database: Database) -> None:
    await put(queue, database, "brief")
    (job,) = await claim(queue)
    claimed: list[Claimed] = []
    async with asyncio.timeout(5):
        while not claimed:
            claimed = await claim(queue, "b")
    assert (claimed[0].id, claimed[0].attempts) == (job.id, 2)


async def test_of_jobs_whose_lease_ran_out_one_is_claimed_at_a_time(
    queue: Queue, database: Database, settings: Settings
) -> None:
    ids = await put(queue, database, "mail", "mail", "mail")
    await claim(queue)
    end_leases(settings)
    ids += await put(queue, database, "mail", "mail")
    assert [job.id for job in await claim(queue, "b")] == [ids[0], ids[3], ids[4]]
    assert [job.id for job in await claim(queue, "b")] == [ids[1]]
    assert [job.id for job in await claim(queue, "b")] == [ids[2]]


async def test_a_renewal_tells_which_jobs_are_still_held(
    queue: Queue, database: Database, settings: Settings
) -> None:
    await put(queue, database, "mail", "mail")
    kept, lost = await claim(queue)
    end_leases(settings)
    assert await queue.renew("a", [(kept, 60.0)]) == {kept.id}
    assert [job.id for job in await claim(queue, "b")] == [lost.id]
    assert await queue.renew("a", [(kept, 60.0), (lost, 60.0)]) == {kept.id}
    assert await queue.renew("b", [(kept, 60.0)]) == set()


async def test_a_job_enqueued_in_a_transaction_that_fails_never_was(
    queue: Queue, database: Database, bus: LocalBus, jobs: Jobs
) -> None:
    async def work(tx: Transaction) -> None:
        await queue.enqueue(tx, NewJob(kind="mail", payload={}))
        raise KeyError("stop")

    with pytest.raises(KeyError):
        await database.write(work)
    assert await jobs.list() == []
    assert bus.state.published == 0


async def test_a_job_is_finished_with_its_effect_or_not_at_all(
    queue: Queue, database: Database, settings: Settings, jobs: Jobs
) -> None:
    await put(queue, database, "mail")
    (old,) = await claim(queue, "a")
    end_leases(settings)
    (new,) = await claim(queue, "b")

    def effect(worker: str, job: Claimed) -> Any:
        async def work(tx: Transaction) -> None:
            await tx.run("backups.begin", name=worker, cause="operator")
            if not await queue.finish(tx, worker, job):
                raise KeyError("lost")

        return work

    with pytest.raises(KeyError):
        await database.write(effect("a", old))
    await database.write(effect("b", new))
    rows = await database.read(lambda tx: tx.all("backups.all"))
    assert ([row["name"] for row in rows], await jobs.list()) == (["b"], [])


async def test_while_a_job_waits_a_second_with_its_key_is_not_enqueued(
    queue: Queue, database: Database
) -> None:
    job = NewJob(kind="mail", payload={}, key="shop")
    assert await put(queue, database, job, job) != []
    assert await put(queue, database, job) == []
    assert len(await put(queue, database, NewJob(kind="brief", payload={}, key="shop"))) == 1
    await claim(queue)
    # What changes from now on may escape the job that runs.
    assert len(await put(queue, database, job)) == 1


async def test_a_key_that_is_kept_is_taken_until_the_job_is_gone(queue: Queue, database: Database) -> None:
    job = NewJob(kind="mail", payload={}, key="shop", keeps_key=True)
    await put(queue, database, job)
    (claimed,) = await claim(queue)
    assert await put(queue, database, job) == []
    await settle(queue, "a", back=[PutBack(claimed.id, 1, "once more", 0.0)])
    assert await put(queue, database, job) == []
    await settle(queue, "a", done=await claim(queue))
    (again,) = await put(queue, database, job)
    (claimed,) = await claim(queue)
    assert claimed.id == again
    await settle(queue, "a", back=[PutBack(again, 1, "no more", 0.0, dead=True)])
    assert len(await put(queue, database, job)) == 1


@pytest.mark.parametrize("settings", ["postgresql"], indirect=True)
async def test_a_key_that_is_rolled_back_leaves_the_job_to_whoever_waited(
    queue: Queue, database: Database
) -> None:
    job = NewJob(kind="mail", payload={}, key="shop")
    first_in = asyncio.Event()
    go = asyncio.Event()

    async def fail(tx: Transaction) -> None:
        await queue.enqueue(tx, job)
        first_in.set()
        await go.wait()
        raise KeyError("stop")

    losing = asyncio.create_task(database.write(fail))
    await first_in.wait()
    winning = asyncio.create_task(put(queue, database, job))
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(KeyError):
        await losing
    assert len(await winning) == 1


async def test_jobs_of_a_newer_program_are_left_to_newer_workers(
    queue: Queue, database: Database, settings: Settings, jobs: Jobs
) -> None:
    newer, ours = await put(queue, database, "mail", "mail")
    run(settings, "UPDATE work_queue SET program_schema = ? WHERE id = ?", program_schema() + 1, newer)
    assert [job.id for job in await claim(queue)] == [ours]
    record = await jobs.find(newer)
    assert record is not None
    assert record.state is State.DUE


async def test_kinds_that_belong_on_the_primary_are_left_to_it(queue: Queue, database: Database) -> None:
    kinds = [Kind("mail", nothing), Kind("build", nothing, primary=True)]
    _, build = await put(queue, database, "mail", "build")
    elsewhere = await claim(queue, kinds=Kinds.of(kinds, primary=False))
    assert [job.kind for job in elsewhere] == ["mail"]
    assert [job.id for job in await claim(queue, "b", kinds=Kinds.of(kinds, primary=True))] == [build]


async def test_many_jobs_in_one_insert_are_one_nudge(queue: Queue, database: Database, bus: LocalBus) -> None:
    with bus.subscribe(Topic.QUEUE) as nudges:
        assert len(await put(queue, database, *["mail"] * 1000)) == 1000
        async with asyncio.timeout(5):
            assert await nudges.next() == JobWaiting("mail")
    assert bus.state.published == 2  # the nudge, and what pages are told


async def test_many_inserts_in_a_row_are_few_nudges_and_one_at_the_end(
    queue: Queue, database: Database, bus: LocalBus
) -> None:
    loop = asyncio.get_running_loop()
    heard: list[tuple[float, Event]] = []

    async def listen() -> None:
        with bus.subscribe(Topic.QUEUE) as nudges:
            async for nudge in nudges:
                assert isinstance(nudge, JobWaiting)
                heard.append((loop.time(), nudge))

    listening = asyncio.create_task(listen())
    began = loop.time()
    for _ in range(50):
        await put(queue, database, "mail")
        last = loop.time()
    await until(lambda: (heard and heard[-1][0] >= last) or loop.time() > last + 2 * NUDGE)
    listening.cancel()
    assert 2 <= len(heard) <= (last - began) / NUDGE + 2


async def test_nobody_is_nudged_for_a_job_that_is_not_due(
    queue: Queue, database: Database, bus: LocalBus
) -> None:
    with bus.subscribe(Topic.LIVE) as pages:
        await put(queue, database, NewJob(kind="mail", payload={}, delay=60))
        async with asyncio.timeout(5):
            assert await pages.next() == Live("queue", "changed")
    assert bus.state.published == 1  # and nothing else


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"x": float("nan")}, "strict JSON"),
        ({"x": float("inf")}, "strict JSON"),
        ({"x": "\ud800"}, "strict JSON"),
        ({"\udfff": 1}, "strict JSON"),
        ({"x": {1, 2}}, "strict JSON"),
        ({"x": b"bytes"}, "strict JSON"),
        ({"x": ["a\0b"]}, "no NUL"),
        ({"\0": 1}, "no NUL"),
        ({"x": "y" * 65536}, "may have 65536 bytes"),
    ],
)
async def test_a_payload_that_could_not_be_kept_is_refused(
    queue: Queue, database: Database, jobs: Jobs, payload: Mapping[str, object], reason: str
) -> None:
    with pytest.raises(PayloadError, match=reason):
        await put(queue, database, "mail", payload=payload)
    assert await jobs.list() == []


SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
)
PAYLOAD = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=10),
    st.recursive(SCALAR, lambda below: st.lists(below, max_size=3), max_leaves=5),
    max_size=4,
)


@examples(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=PAYLOAD)
def test_every_payload_of_strict_json_comes_back_as_it_was(
    settings: Settings, payload: Mapping[str, object]
) -> None:
    async def there_and_back() -> Mapping[str, object]:
        from rota import wiring  # noqa: PLC0415

        database = wiring.make_database(settings)
        await database.open()
        try:
            queue = TableQueue(database, LocalBus())
            await put(queue, database, NewJob(kind="mail", payload=payload))
            (claimed,) = await claim(queue)
            await settle(queue, "a", done=[claimed])
            return decode(claimed.payload)
        finally:
            await database.close()

    assert asyncio.run(there_and_back()) == payload


@pytest.mark.parametrize("settings", ["postgresql"], indirect=True)
async def test_the_table_has_no_trigger_and_a_claim_touches_no_index(
    queue: Queue, database: Database, postgres: Server, settings: Settings
) -> None:
    await put(queue, database, *["mail"] * 20)
    await claim(queue, room=20)
    with postgres.admin("rota") as admin:
        admin.execute("SELECT set_config('search_path', %s, false)", (settings.database.schema,))
        assert (
            admin.execute("SELECT 1 FROM pg_trigger WHERE tgrelid = 'work_queue'::regclass").fetchall() == []
        )

        def hot() -> bool:
            query = (
                "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_all_tables WHERE relid = 'work_queue'::regclass"
            )
            row = admin.execute(query).fetchone()
            return row is not None and row[0] == row[1] == 20

        await database.close()  # a session tells its statistics when it ends
        await until(hot)


async def test_counts_and_lists_say_where_each_job_stands(
    queue: Queue, database: Database, jobs: Jobs
) -> None:
    dead, running = await put(queue, database, "mail", "mail")
    await claim(queue)
    await settle(queue, "a", back=[PutBack(dead, 1, "no more", 0.0, dead=True)])
    due, later = await put(queue, database, "brief", NewJob(kind="brief", payload={}, delay=60))
    counted = [(count.kind, count.state, count.jobs) for count in await jobs.counts()]
    assert counted == [
        ("brief", State.DUE, 1),
        ("brief", State.LATER, 1),
        ("mail", State.DEAD, 1),
        ("mail", State.RUNNING, 1),
    ]
    assert {record.id: record.state for record in await jobs.list()} == {
        dead: State.DEAD,
        running: State.RUNNING,
        due: State.DUE,
        later: State.LATER,
    }
    assert [record.id for record in await jobs.list(kind="mail", state=State.DEAD)] == [dead]
    assert len(await jobs.list(limit=2)) == 2
    assert await jobs.find(later + 1) is None


async def test_a_dead_job_that_is_retried_begins_anew(queue: Queue, database: Database, jobs: Jobs) -> None:
    (job,) = await put(queue, database, "mail")
    (claimed,) = await claim(queue)
    await settle(queue, "a", back=[PutBack(job, claimed.attempts, "no more", 0.0, dead=True)])
    assert await claim(queue) == []
    assert await jobs.retry([job, job, job + 1]) == [job]
    assert [again.attempts for again in await claim(queue)] == [1]


async def test_a_waiting_job_that_is_retried_is_due_at_once_and_keeps_its_attempts(
    queue: Queue, database: Database, jobs: Jobs
) -> None:
    (job,) = await put(queue, database, "mail")
    await claim(queue)
    await settle(queue, "a", back=[PutBack(job, 1, "once more", 3600.0)])
    assert await jobs.retry([job]) == [job]
    assert [again.attempts for again in await claim(queue)] == [2]


async def test_a_job_that_runs_is_neither_retried_nor_dropped(
    queue: Queue, database: Database, jobs: Jobs
) -> None:
    (job,) = await put(queue, database, "mail")
    claimed = await claim(queue)
    assert await jobs.retry([job]) == await jobs.drop([job]) == []
    assert await settle(queue, "a", done=claimed) == 0


async def test_a_dropped_job_is_gone(queue: Queue, database: Database, jobs: Jobs) -> None:
    first, second = await put(queue, database, "mail", "mail")
    assert await jobs.drop([first]) == [first]
    assert [record.id for record in await jobs.list()] == [second]


async def test_dead_jobs_are_forgotten_when_they_are_old_or_too_many(
    queue: Queue, database: Database, jobs: Jobs, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_DEAD", 2)
    monkeypatch.setattr(store, "PRUNED", 1)
    ids = await put(queue, database, *["mail"] * 5, "brief")
    back = [PutBack(job.id, 1, "no more", 0.0, dead=True) for job in await claim(queue)]
    await settle(queue, "a", back=back)
    (waiting,) = await put(queue, database, "mail")
    run(settings, LONG_AGO[settings.sqlite], ids[5])
    fence = (await database.write(lambda tx: raise_epochs(tx, ["maintenance.nightly"], "here")))[0]
    assert await jobs.prune(fence, days=30) == 4
    assert sorted(record.id for record in await jobs.list()) == [ids[3], ids[4], waiting]
