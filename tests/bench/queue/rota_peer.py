"""Ours, as a hub runs it: the same database, bus, queue and worker."""

import asyncio

import psycopg
import uvloop
from tests.bench.queue.driver import DSN, Counter, arguments, batches, say, timed, trickle
from tests.support.settings import NO_SETTINGS

from rota import wiring
from rota.coordination.bus.bus import Bus
from rota.coordination.queue.job import NewJob
from rota.coordination.queue.kinds import Job, Kind, Kinds
from rota.coordination.queue.queue import TableQueue
from rota.coordination.queue.worker import Worker
from rota.logging import configure
from rota.settings import load
from rota.store.database import Database
from rota.store.jobs import Jobs

SCHEMA = "hub"  # not the name of the role: that would come first in the path of every peer

counter = Counter()


async def noop(job: Job) -> None:
    counter.hit(job.payload["sent"])


async def setup() -> None:
    async with await psycopg.AsyncConnection.connect(DSN, autocommit=True) as connection:
        await connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())


async def enqueue(database: Database, queue: TableQueue, sizes: list[int]) -> None:
    for size in sizes:
        jobs = [NewJob(kind="noop", payload={"sent": 0}) for _ in range(size)]
        await database.write(lambda tx: queue.enqueue(tx, *jobs))  # noqa: B023


async def work(queue: TableQueue, bus: Bus) -> None:
    stopping = asyncio.Event()
    kinds = Kinds.of([Kind("noop", noop)], primary=False)
    working = asyncio.create_task(Worker(queue, kinds, bus).run(stopping))
    await counter.until_idle()
    stopping.set()
    await working


async def main() -> None:
    command, count = arguments()
    configure("warning")
    if command == "setup":
        await setup()
    environ = {"ROTA_DATABASE_URL": DSN, "ROTA_DATABASE_SCHEMA": SCHEMA}
    settings = load(file=NO_SETTINGS, environ=environ).settings
    database, bus = wiring.make_database(settings), wiring.make_bus(settings)
    await database.open()
    bus.start()
    queue = TableQueue(database, bus)
    if command in ("single", "bulk"):
        await timed(lambda: enqueue(database, queue, [1] * count if command == "single" else batches(count)))
    elif command == "trickle":
        await trickle(
            count,
            lambda sent: database.write(
                lambda tx: queue.enqueue(tx, NewJob(kind="noop", payload={"sent": sent}))
            ),
        )
    elif command == "worker":
        await work(queue, bus)
    elif command == "left":
        say(left=sum(each.jobs for each in await Jobs(database).counts()))
    await bus.close()
    await database.close()


if __name__ == "__main__":
    uvloop.run(main())
