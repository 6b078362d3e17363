"""The work queue under everything that can happen to jobs and their workers, on both databases.

The model knows who holds what. Whatever the machine does, the table says the
same, no job is lost, and of each job at most one finish is accepted.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, cast

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.support.sql import end_leases, run

from rota import wiring
from rota.coordination.bus.local import LocalBus
from rota.coordination.queue.job import Claimed, NewJob, PutBack
from rota.coordination.queue.kinds import Job, Kind, Kinds
from rota.coordination.queue.queue import Settled, TableQueue
from rota.settings import Settings
from rota.store.database import Database, Transaction
from rota.store.jobs import Jobs, State
from rota.store.migrations import program_schema

T = TypeVar("T")

WORKERS = st.sampled_from("abc")
KINDS = st.sampled_from(["mail", "mirror", "build"])


async def nothing(_: Job) -> None:
    pass


BUILD = Kind("build", nothing, primary=True)
ELSEWHERE = Kinds.of([Kind("mail", nothing), Kind("mirror", nothing), BUILD], primary=False)


@dataclass
class Model:
    """One job that was enqueued and is not gone."""

    kind: str
    key: str | None
    keeps_key: bool
    due: bool
    newer: bool = False
    attempts: int = 0
    worker: str | None = None
    leased: bool = False
    dead: bool = False

    def claimable(self) -> bool:
        return self.due and not (self.dead or self.leased or self.newer) and self.kind != "build"


@dataclass
class World:
    """What the machine remembers of all that was done."""

    jobs: dict[int, Model] = field(default_factory=dict)
    claims: list[tuple[str, Claimed]] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)


class Queueing(RuleBasedStateMachine):
    """Rules are what programs, workers, operators and time do."""

    def __init__(self, settings: Settings, database: Database, runner: asyncio.Runner) -> None:
        super().__init__()
        self.settings = settings
        self.database = database
        self.runner = runner
        self.queue = TableQueue(database, LocalBus())
        self.world = World()
        run(settings, "DELETE FROM work_queue")

    def do(self, call: Callable[[], Awaitable[T]]) -> T:
        async def called() -> T:
            return await call()

        return self.runner.run(called())

    @rule(kind=KINDS, key=st.sampled_from([None, "x", "y"]), keeps=st.booleans(), due=st.booleans())
    def enqueue(self, kind: str, key: str | None, *, keeps: bool, due: bool) -> None:
        new = NewJob(kind=kind, payload={}, key=key, keeps_key=keeps, delay=0 if due else 3600)
        ids = self.do(lambda: self.database.write(lambda tx: self.queue.enqueue(tx, new)))
        taken = key is not None and any(
            (job.kind, job.key) == (kind, key) for job in self.world.jobs.values()
        )
        assert len(ids) == (0 if taken else 1)
        for job in ids:
            assert job not in self.world.jobs
            self.world.jobs[job] = Model(kind, key, keeps, due)

    @rule(kind=KINDS)
    def enqueue_in_a_transaction_that_fails(self, kind: str) -> None:
        async def work(tx: Transaction) -> None:
            assert await self.queue.enqueue(tx, NewJob(kind=kind, payload={}))
            raise KeyError(kind)

        try:
            self.do(lambda: self.database.write(work))
        except KeyError:
            return
        raise AssertionError("the transaction did not fail")

    @precondition(lambda self: self.world.jobs)
    @rule(data=st.data())
    def a_newer_program_enqueued_it(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.world.jobs)))
        self.world.jobs[job].newer = True
        schema = program_schema() + 1
        run(self.settings, "UPDATE work_queue SET program_schema = ? WHERE id = ?", schema, job)

    @rule(worker=WORKERS, room=st.integers(1, 4))
    def claim(self, worker: str, room: int) -> None:
        able = {job for job, model in self.world.jobs.items() if model.claimable()}
        again = {job for job in able if self.world.jobs[job].worker is not None}
        claimed = self.do(lambda: self.queue.turn(worker, Settled(), ELSEWHERE, room)).claimed
        ids = {job.id for job in claimed}
        assert len(ids) == len(claimed) <= room
        assert ids <= able
        assert len(ids & again) <= 1
        assert bool(ids) == bool(able)
        if not again:
            assert len(ids) == min(room, len(able))
        for job in claimed:
            model = self.world.jobs[job.id]
            model.worker, model.leased, model.attempts = worker, True, model.attempts + 1
            model.key = model.key if model.keeps_key else None
            assert (job.kind, job.attempts) == (model.kind, model.attempts)
            self.world.claims.append((worker, job))

    def held(self, worker: str, job: Claimed) -> bool:
        model = self.world.jobs.get(job.id)
        return (
            model is not None and not model.dead and (model.worker, model.attempts) == (worker, job.attempts)
        )

    @precondition(lambda self: self.world.claims)
    @rule(data=st.data(), own=st.booleans())
    def finish(self, data: st.DataObject, *, own: bool) -> None:
        """Finish a claim of any age, in a turn or in a transaction of the handler's own."""
        worker, job = data.draw(st.sampled_from(self.world.claims))
        held = self.held(worker, job)
        if own:
            accepted = self.do(lambda: self.database.write(lambda tx: self.queue.finish(tx, worker, job)))
        else:
            turn = self.do(lambda: self.queue.turn(worker, Settled(done=[job]), ELSEWHERE, 0))
            accepted = turn.lost == 0
        assert accepted == held
        if accepted:
            del self.world.jobs[job.id]
            self.world.finished.append(job.id)

    @precondition(lambda self: self.world.claims)
    @rule(
        data=st.data(), dead=st.booleans(), delay=st.sampled_from([None, 0.0, 3600.0]), counted=st.booleans()
    )
    def put_back(self, data: st.DataObject, delay: float | None, *, dead: bool, counted: bool) -> None:
        worker, job = data.draw(st.sampled_from(self.world.claims))
        held = self.held(worker, job)
        back = PutBack(job.id, job.attempts, "by the test", delay, dead, counted)
        turn = self.do(lambda: self.queue.turn(worker, Settled(back=[back]), ELSEWHERE, 0))
        assert (turn.lost == 0) == held
        if held:
            model = self.world.jobs[job.id]
            model.worker, model.leased, model.dead = None, False, dead
            model.attempts -= not counted
            model.due = model.due if delay is None else delay == 0
            model.key = None if dead else model.key

    @precondition(lambda self: self.world.claims)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        worker, job = data.draw(st.sampled_from(self.world.claims))
        held = self.held(worker, job)
        assert self.do(lambda: self.queue.renew(worker, [(job, 300.0)])) == ({job.id} if held else set())
        if held:
            self.world.jobs[job.id].leased = True

    @rule()
    def leases_run_out(self) -> None:
        """Let time pass: workers were killed, frozen, or cut off."""
        end_leases(self.settings)
        for model in self.world.jobs.values():
            model.leased = False

    @rule()
    def what_waits_becomes_due(self) -> None:
        run(self.settings, "UPDATE work_queue SET run_after = enqueued_at WHERE NOT dead")
        for model in self.world.jobs.values():
            model.due = model.due or not model.dead

    @precondition(lambda self: self.world.jobs)
    @rule(data=st.data(), drop=st.booleans())
    def an_operator_decides(self, data: st.DataObject, *, drop: bool) -> None:
        job = data.draw(st.sampled_from(sorted(self.world.jobs)))
        model = self.world.jobs[job]
        jobs = Jobs(self.database)
        changed = self.do(lambda: jobs.drop([job]) if drop else jobs.retry([job]))
        assert changed == ([] if model.leased and not model.dead else [job])
        if not changed:
            return
        if drop:
            del self.world.jobs[job]
            return
        model.attempts = 0 if model.dead else model.attempts
        model.dead, model.due, model.worker, model.leased = False, True, None, False

    @invariant()
    def the_table_says_the_same(self) -> None:
        found = {
            job.id: (job.attempts, job.worker, job.state is State.DEAD, job.key)
            for job in self.do(lambda: Jobs(self.database).list(limit=1000))
        }
        assert found == {
            job: (model.attempts, model.worker, model.dead, model.key)
            for job, model in self.world.jobs.items()
        }

    @invariant()
    def no_job_is_finished_twice(self) -> None:
        assert len(self.world.finished) == len(set(self.world.finished))


def test_jobs_are_never_lost_and_finish_at_most_once(settings: Settings) -> None:
    with asyncio.Runner() as runner:
        database = wiring.make_database(settings)
        runner.run(database.open())
        try:
            run_state_machine_as_test(
                cast("type[RuleBasedStateMachine]", partial(Queueing, settings, database, runner)),
                settings=hypothesis.settings(max_examples=20, stateful_step_count=30, deadline=None),
            )
        finally:
            runner.run(database.close())
