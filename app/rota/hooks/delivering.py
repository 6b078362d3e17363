"""Who tries a delivery: the leader of `hooks.worker` first, and after a failure only its job.

The row says whose it is. It changes hands in the transaction that adds the job,
and back in the one that ends it, so that never both try.
"""

from dataclasses import dataclass
from datetime import timedelta

from rota.coordination.bus.announcer import Announcer
from rota.coordination.epoch import Fence
from rota.coordination.queue.job import NewJob
from rota.coordination.queue.kinds import ATTEMPTS, FIRST, Job
from rota.coordination.queue.queue import Queue
from rota.errors import RotaError
from rota.hooks.courier import Courier, Outcome
from rota.mail.notices import Operators
from rota.store.database import Database, Transaction
from rota.store.deliveries import Deliveries, Due, State

KIND = "webhook.deliver"
TOPIC = "webhooks"  # of the events that pages listen to


class DeliveryError(RotaError):
    """A try failed; the queue makes another one."""


@dataclass(frozen=True)
class Hearers:
    """Who hears of tries: operators of what is given up, pages of all."""

    operators: Operators
    pages: Announcer


class Delivering:
    """Both paths of one process."""

    def __init__(self, database: Database, queue: Queue, courier: Courier, hearers: Hearers) -> None:
        """Try with this courier, and tell these."""
        self._database = database
        self._deliveries = Deliveries(database)
        self._queue = queue
        self._courier = courier
        self._hearers = hearers

    async def first(self, due: Due, fence: Fence) -> None:
        """Make the first try of a new one. Raises FencedError, UnreachableError: then it stays new."""
        outcome = await self._courier.deliver(due)

        async def work(tx: Transaction) -> None:
            state = State.DELIVERED if outcome.good else State.QUEUED
            settled = await self._settle(tx, due, state, outcome)
            if settled and not outcome.good:
                new = NewJob(kind=KIND, payload={"delivery": due.id}, delay=FIRST)
                (job,) = await self._queue.enqueue(tx, new)
                await Deliveries.give(tx, due.id, job)

        await self._database.write(work, fence)

    async def again(self, job: Job) -> None:
        """Make one of the later tries. Raises DeliveryError where it failed."""
        due = await self._deliveries.due(int(job.payload["delivery"]))
        if due is None or due.state is not State.QUEUED or due.job != job.id:
            return  # the webhook is gone, or the delivery is another's by now
        if not due.active:
            await self._database.write(lambda tx: self._put_aside(tx, due, job))
            return
        outcome = await self._courier.deliver(due)
        last = job.attempt >= ATTEMPTS

        async def work(tx: Transaction) -> None:
            settled = await self._settle(tx, due, State.DELIVERED if outcome.good else State.QUEUED, outcome)
            if outcome.good:
                await job.finish(tx)
            elif settled and last:
                await self._hearers.operators.tell(
                    tx,
                    f"webhook {due.webhook}",
                    f"Delivery {due.id} to the webhook {due.webhook} failed {due.tries + 1} times, at last "
                    f"because {outcome.text}. Nothing tries it again by itself. When it is well again, run"
                    f"\n\n    rota webhook redeliver {due.webhook} {due.id}\n",
                    timedelta(days=1),
                )

        await self._database.write(work)
        if not outcome.good:
            raise DeliveryError(outcome.text)

    async def close(self) -> None:
        """Let go of what is open."""
        await self._courier.close()

    async def _put_aside(self, tx: Transaction, due: Due, job: Job) -> None:
        """Let it wait, without a job, until its webhook is active again."""
        await Deliveries.renew(tx, due)
        await job.finish(tx)

    async def _settle(self, tx: Transaction, due: Due, state: State, outcome: Outcome) -> bool:
        tx.after_commit(self._tell_pages)
        reason = None if outcome.good else outcome.text
        return await Deliveries.settle(tx, due, state, outcome.status, reason)

    def _tell_pages(self) -> None:
        self._hearers.pages.say(TOPIC, "delivery")
