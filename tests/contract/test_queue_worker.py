"""The worker that takes jobs, on SQLite and on PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest
from tests.support.sql import end_leases, run
from tests.support.wait import until

from rota.coordination.bus.local import LocalBus
from rota.coordination.queue import kinds as rules
from rota.coordination.queue import worker as working
from rota.coordination.queue.attempt import LeaseLostError, Stop
from rota.coordination.queue.job import NewJob
from rota.coordination.queue.kinds import Job, Kind, Kinds
from rota.coordination.queue.queue import Settled, TableQueue, Turn
from rota.coordination.queue.worker import Worker
from rota.errors import RotaError, UnreachableError
from rota.settings import Settings
from rota.store.database import Database, Transaction
from rota.store.jobs import JobRecord, Jobs, State


class Hand:
    """One worker in the test's hand. It never polls by itself unless told to."""

    def __init__(self, database: Database, kinds: Iterable[Kind], slots: int) -> None:
        self.bus = LocalBus()
        self.queue = TableQueue(database, self.bus)
        self.jobs = Jobs(database)
        self.database = database
        self.worker = Worker(self.queue, Kinds.of(kinds, primary=False), self.bus, slots)
        self.stopping = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.create_task(self.worker.run(self.stopping))

    async def put(self, *kinds: str, **payload: Any) -> list[int]:
        new = [NewJob(kind=kind, payload=payload) for kind in kinds]
        return await self.database.write(lambda tx: self.queue.enqueue(tx, *new))

    async def stop(self) -> None:
        self.stopping.set()
        if self.task is not None:
            async with asyncio.timeout(20):
                await self.task
            self.task = None

    async def empty(self, within: float = 10) -> None:
        await self.where(lambda records: not records, within)

    async def where(self, true: Callable[[list[JobRecord]], bool], within: float = 10) -> list[JobRecord]:
        """Return the jobs once this is true of them."""
        async with asyncio.timeout(within):
            while True:
                records = list(await self.jobs.list())
                if true(records):
                    return records
                await asyncio.sleep(0.01)

    async def dead(self) -> JobRecord:
        """Return the one job, once it is dead."""
        (record,) = await self.where(lambda all_: [each.state for each in all_] == [State.DEAD])
        return record


Make = Callable[..., Hand]


@pytest.fixture
async def make(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    """Give a maker of workers that stop with the test."""
    monkeypatch.setattr(working, "POLL", 60.0)
    monkeypatch.setattr(rules, "FIRST", 0.0)
    made: list[Hand] = []

    def new(*kinds: Kind, slots: int = 4) -> Hand:
        made.append(Hand(database, kinds, slots))
        return made[-1]

    yield new
    for hand in made:
        await hand.stop()


class Record:
    """A handler that keeps a record, and does as it is told."""

    def __init__(self, act: Callable[[Job], Any] | None = None) -> None:
        self.attempts: list[tuple[int, int]] = []
        self.running = 0
        self.most = 0
        self.cancelled = 0
        self._act = act

    async def __call__(self, job: Job) -> None:
        self.attempts.append((job.id, job.attempt))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if self._act is not None:
                await self._act(job)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    @property
    def ids(self) -> list[int]:
        return [job for job, _ in self.attempts]


async def for_ever(_: Job) -> None:
    await asyncio.Event().wait()


async def test_jobs_that_wait_and_jobs_that_come_are_all_done_once(make: Make) -> None:
    record = Record()
    hand = make(Kind("mail", record))
    ids = await hand.put("mail", "mail")
    hand.start()
    await hand.empty()
    ids += await hand.put("mail")
    await hand.empty(within=2)
    assert sorted(record.ids) == ids
    assert hand.worker.tally == {("mail", "done"): 3}


async def test_a_full_batch_claims_again_without_waiting(make: Make) -> None:
    record = Record()
    hand = make(Kind("mail", record))
    ids = await hand.put(*["mail"] * 3000)
    hand.start()
    await hand.empty(within=15)
    assert sorted(record.ids) == ids


async def test_handlers_run_side_by_side_in_as_many_slots_as_there_are(make: Make) -> None:
    async def wait_a_moment(_: Job) -> None:
        for _turn in range(5):
            await asyncio.sleep(0.01)

    record = Record(wait_a_moment)
    hand = make(Kind("mail", record), slots=3)
    await hand.put(*["mail"] * 20)
    hand.start()
    await hand.empty()
    assert record.most == 3


async def test_the_handler_is_given_what_was_enqueued(make: Make) -> None:
    given: list[dict[str, Any]] = []

    async def keep(job: Job) -> None:
        given.append(job.payload)

    hand = make(Kind("mail", keep))
    await hand.put("mail", to="a@b.example", n=3)
    hand.start()
    await hand.empty()
    assert given == [{"to": "a@b.example", "n": 3}]


async def test_what_fails_is_tried_eight_times_and_then_kept_with_its_error(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Job) -> None:
        raise RotaError("no route \0 \ud800")

    monkeypatch.setattr(working, "POLL", 0.01)
    record = Record(fail)
    hand = make(Kind("mail", record))
    (job,) = await hand.put("mail")
    hand.start()
    dead = await hand.dead()
    assert record.attempts == [(job, number) for number in range(1, 9)]
    assert dead.attempts == 8
    assert dead.error is not None
    assert dead.error.startswith("RotaError: no route � ? (worker.py:")
    assert "test_queue_worker.py" in dead.error
    assert hand.worker.tally == {("mail", "failed"): 7, ("mail", "dead"): 1}


async def test_between_attempts_a_job_waits_longer_and_longer(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Job) -> None:
        raise RotaError("no route")

    monkeypatch.setattr(rules, "FIRST", 30.0)
    hand = make(Kind("mail", fail))
    (job,) = await hand.put("mail")
    hand.start()
    waits = []
    for attempts in range(1, 8):
        (record,) = await hand.where(
            lambda all_: [(each.state, each.attempts) for each in all_] == [(State.LATER, attempts)]  # noqa: B023
        )
        waits.append((record.run_after - record.enqueued_at).total_seconds())
        assert await hand.jobs.retry([job]) == [job]
        hand.worker._look = True
        hand.worker._bell.set()
    for attempts, waited in enumerate(waits):
        assert 0.85 * 30 * 2**attempts <= waited <= 1.15 * 30 * 2**attempts + 20
    await hand.dead()


async def test_a_kind_that_nobody_knows_is_dead_at_once_and_says_what_to_do(make: Make) -> None:
    hand = make(Kind("mail", Record()))
    await hand.put("of.yesterday")
    hand.start()
    dead = await hand.dead()
    assert dead.attempts == 0
    assert dead.error == (
        "no worker of this release knows the kind of.yesterday: upgrade, then retry it, or drop it"
    )


async def test_a_job_that_ends_its_worker_each_time_is_dead_after_eight_attempts_and_not_run_again(
    make: Make, settings: Settings
) -> None:
    record = Record()
    hand = make(Kind("mail", record))
    await hand.put("mail")
    for attempt in range(1, 9):
        turn = await hand.queue.turn(f"crashed {attempt}", Settled(), hand.worker._kinds, 10)
        assert [job.attempts for job in turn.claimed] == [attempt]
        end_leases(settings)
    hand.start()
    dead = await hand.dead()
    assert (record.attempts, dead.attempts) == ([], 8)
    assert dead.error == "its lease ran out at attempt 8: its worker ended, or lost the database"


async def test_a_payload_that_somebody_broke_fails_like_any_other_job(
    make: Make, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "POLL", 0.01)
    record = Record()
    hand = make(Kind("mail", record, attempts=2))
    await hand.put("mail")
    run(settings, "UPDATE work_queue SET payload = ?", '{"x": NaN')
    hand.start()
    dead = await hand.dead()
    assert (record.attempts, dead.attempts) == ([], 2)
    assert dead.error is not None
    assert dead.error.startswith("PayloadError: the stored payload is no strict JSON")


async def test_a_job_longer_than_its_lease_is_renewed_and_run_once(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "POLL", 0.05)
    ended = asyncio.Event()

    async def long(_: Job) -> None:
        await ended.wait()

    record = Record(long)
    one, two = (make(Kind("deploy.step", record, lease=4.0)) for _ in range(2))
    one.start()
    two.start()
    await one.put("deploy.step")
    loop = asyncio.get_running_loop()
    end = loop.time() + 8.0
    while loop.time() < end:
        await asyncio.sleep(0.05)
        assert record.most <= 1
    ended.set()
    await one.empty()
    assert len(record.attempts) == 1


async def test_an_attempt_that_takes_too_long_is_ended_and_tried_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "POLL", 0.05)
    monkeypatch.setattr(working, "TICK", 0.05)
    record = Record(for_ever)
    hand = make(Kind("mail", record, limit=0.1, attempts=2))
    await hand.put("mail")
    hand.start()
    dead = await hand.dead()
    assert (len(record.attempts), record.cancelled) == (2, 2)
    assert dead.error == "ended after 0.1 s: it took longer than its kind allows"


async def test_an_attempt_that_lost_its_lease_is_ended_and_its_result_counts_for_nothing(
    make: Make, settings: Settings
) -> None:
    record = Record(for_ever)
    hand = make(Kind("deploy.step", record, lease=1.0))
    (job,) = await hand.put("deploy.step")
    hand.start()
    await until(lambda: record.running)
    run(settings, "UPDATE work_queue SET claimed_by = 'another', attempts = 2")
    await until(lambda: record.cancelled)
    await until(lambda: hand.worker.tally == {("deploy.step", "left"): 1})
    found = await hand.jobs.find(job)
    assert found is not None
    assert (found.worker, found.attempts, found.error) == ("another", 2, None)


async def test_a_worker_without_a_database_ends_its_attempts_when_their_leases_do(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record(for_ever)
    hand = make(Kind("deploy.step", record, lease=0.5))

    async def away(*_: object) -> set[int]:
        raise UnreachableError("cut off")

    monkeypatch.setattr(hand.queue, "renew", away)
    await hand.put("deploy.step")
    hand.start()
    await until(lambda: record.cancelled, within=3)


async def test_a_job_finished_in_its_handlers_transaction_is_finished_with_it(make: Make) -> None:
    hand: Hand

    async def act(job: Job) -> None:
        async def work(tx: Transaction) -> None:
            await tx.run("backups.begin", name=str(job.id), cause="operator")
            await job.finish(tx)

        await hand.database.write(work)

    hand = make(Kind("mail", act))
    (job,) = await hand.put("mail")
    hand.start()
    await hand.empty()
    rows = await hand.database.read(lambda tx: tx.all("backups.all"))
    assert [row["name"] for row in rows] == [str(job)]
    assert hand.worker.tally == {("mail", "done"): 1}


async def test_an_effect_of_an_attempt_that_lost_its_lease_is_not_committed(
    make: Make, settings: Settings
) -> None:
    hand: Hand
    met: list[str] = []

    async def act(job: Job) -> None:
        run(settings, "UPDATE work_queue SET claimed_by = 'another', attempts = 2")

        async def work(tx: Transaction) -> None:
            await tx.run("backups.begin", name=str(job.id), cause="operator")
            await job.finish(tx)

        try:
            await hand.database.write(work)
        except LeaseLostError as error:
            met.append(str(error))
            raise

    hand = make(Kind("mail", act))
    await hand.put("mail")
    hand.start()
    await until(lambda: hand.worker.tally == {("mail", "left"): 1})
    assert await hand.database.read(lambda tx: tx.all("backups.all")) == []
    assert met


async def test_a_stopping_worker_gives_back_what_it_has_not_begun_and_lets_the_rest_end(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = asyncio.Event()

    async def wait(_: Job) -> None:
        await go.wait()

    record = Record(wait)
    hand = make(Kind("mail", record), slots=1)
    monkeypatch.setattr(hand.worker._pace, "room", lambda _: 5)
    await hand.put("mail", "mail", "mail")
    hand.start()
    await until(lambda: hand.worker.in_hand == 3)
    hand.stopping.set()
    given = await hand.where(lambda all_: [each.state for each in all_].count(State.DUE) == 2)
    assert [each.attempts for each in given if each.state is State.DUE] == [0, 0]
    assert record.running == 1
    go.set()
    await hand.stop()
    assert len(await hand.jobs.list()) == 2


async def test_a_job_that_does_not_end_with_its_worker_is_left_to_its_lease(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "LEAVE", 0.1)
    record = Record(for_ever)
    hand = make(Kind("mail", record))
    await hand.put("mail")
    hand.start()
    await until(lambda: record.running)
    await hand.stop()
    (left,) = await hand.jobs.list()
    assert (record.cancelled, left.state, left.attempts) == (1, State.RUNNING, 1)


async def test_what_waits_too_long_for_a_slot_is_given_to_others(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "IDLE", 0.05)
    monkeypatch.setattr(working, "TICK", 0.05)
    record = Record(for_ever)
    hand = make(Kind("mail", record), slots=1)
    with monkeypatch.context() as generous:
        generous.setattr(hand.worker._pace, "room", lambda _: 5)
        await hand.put("mail", "mail")
        hand.start()
        await until(lambda: hand.worker.in_hand == 2 or hand.worker.tally["mail", "given back"])
    given = await hand.where(lambda all_: [each.state for each in all_].count(State.DUE) == 1)
    assert sorted(each.attempts for each in given) == [0, 1]
    next(iter(hand.worker._running)).end(Stop.LEAVING)


async def test_results_that_cannot_be_told_are_told_when_the_database_is_back(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "AGAIN", 0.05)
    record = Record()
    hand = make(Kind("mail", record))
    away: list[int] = []
    real = hand.queue.turn

    async def turn(worker: str, settled: Settled, kinds: Kinds, room: int) -> Turn:
        if settled and len(away) < 3:
            away.append(1)
            if len(away) == 2:
                await real(worker, settled, kinds, 0)  # committed, but nobody heard of it
            raise UnreachableError("the database went away")
        return await real(worker, settled, kinds, room)

    monkeypatch.setattr(hand.queue, "turn", turn)
    ids = await hand.put("mail", "mail")
    hand.start()
    await hand.empty()
    assert sorted(record.ids) == ids
    await until(lambda: len(away) == 3)
    assert hand.worker.tally == {("mail", "done"): 2}


@pytest.mark.parametrize("swallows", [True, False])
async def test_a_handler_that_plays_with_cancellation_harms_no_other_job(
    make: Make, monkeypatch: pytest.MonkeyPatch, *, swallows: bool
) -> None:
    monkeypatch.setattr(working, "TICK", 0.05)

    async def play(job: Job) -> None:
        if job.payload.get("good"):
            return
        if not swallows:
            raise asyncio.CancelledError
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    hand = make(Kind("mail", play, limit=0.1, attempts=1), slots=1)
    await hand.put("mail", "mail")
    hand.start()
    records = await hand.where(lambda all_: [each.state for each in all_] == [State.DEAD] * 2)
    assert all(each.error for each in records)
    await hand.put("mail", good=True)
    await hand.where(lambda all_: len(all_) == 2)


async def test_a_worker_whose_nudges_lead_to_nothing_looks_a_little_later(make: Make) -> None:
    hand = make(Kind("mail", Record()))
    hand.start()
    await until(lambda: hand.worker._poll_at)
    for misses in range(1, working.MISSES + 1):
        hand.bus._broadcast.resync("by the test")
        await until(lambda: hand.worker._misses == misses)  # noqa: B023
    await hand.put("mail")
    await hand.empty(within=2)
    assert hand.worker._misses == 0


async def test_a_part_that_crashes_ends_the_worker_and_its_jobs_are_left_to_their_leases(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = make(Kind("mail", Record(for_ever)))

    async def crash(*_: object) -> Turn:
        raise ZeroDivisionError("a fault of the test's own")

    monkeypatch.setattr(hand.queue, "turn", crash)
    with pytest.raises(ZeroDivisionError):
        await hand.worker.run(asyncio.Event())


async def test_ours_once_lost_and_ours_again_is_run_as_the_new_attempt_alone(
    make: Make, settings: Settings
) -> None:
    record = Record(for_ever)
    hand = make(Kind("mail", record))
    (job,) = await hand.put("mail")
    hand.start()
    await until(lambda: record.running)
    end_leases(settings)
    hand.worker._look = True
    hand.worker._bell.set()
    await until(lambda: record.attempts == [(job, 1), (job, 2)])
    await until(lambda: record.running == 1)
    next(iter(hand.worker._running)).end(Stop.LEAVING)
