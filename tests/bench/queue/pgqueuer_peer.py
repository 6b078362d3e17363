"""pgqueuer on asyncpg, a hundred jobs a batch."""

import asyncio
import logging
from typing import Any

import asyncpg
import pgqueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries
from tests.bench.queue.driver import DSN, Counter, arguments, batches, say, timed, trickle

BATCH = 100

counter = Counter()


async def setup(connection: Any, queries: Any) -> None:
    await connection.execute("DROP SCHEMA public CASCADE")
    await connection.execute("CREATE SCHEMA public")
    await queries.install()


async def single(queries: Any, count: int) -> None:
    for _ in range(count):
        await queries.enqueue("noop", b"0")


async def bulk(queries: Any, count: int) -> None:
    for size in batches(count):
        await queries.enqueue(["noop"] * size, [b"0"] * size, [0] * size)


async def work(driver: Any) -> None:
    queue = pgqueuer.PgQueuer(driver)

    @queue.entrypoint("noop")  # type: ignore[untyped-decorator, unused-ignore]
    async def noop(job: Any) -> None:
        counter.hit(float(job.payload))

    working = asyncio.create_task(queue.run(batch_size=BATCH))
    await counter.until_idle()
    queue.shutdown.set()
    await asyncio.wait([working], timeout=10)


async def main() -> None:
    command, count = arguments()
    logging.disable(logging.INFO)
    connection = await asyncpg.connect(DSN)
    driver = AsyncpgDriver(connection)
    queries = Queries(driver)
    if command == "setup":
        await setup(connection, queries)
    elif command in ("single", "bulk"):
        await timed(lambda: (single if command == "single" else bulk)(queries, count))
    elif command == "trickle":
        await trickle(count, lambda sent: queries.enqueue("noop", str(sent).encode()))
    elif command == "worker":
        await work(driver)
    elif command == "left":
        say(left=await connection.fetchval("SELECT count(*) FROM pgqueuer"))


if __name__ == "__main__":
    asyncio.run(main())
